"""Worlds of claims on few devices, and second by second what of each card is held, reserved, unknown and idle in them."""

import random
from collections import Counter

from bus.events.devices import Device
from tests import factories as given
from tests.projections.devices.claimed import card, claim_observed, slice_observed


def part(name, memory):
    """A partition of a card of 80 GiB."""
    return Device(name, capacity={"memory": memory}, consumes={"set": {"memory": memory}})


def fixed(name, profile):
    """A partition of a card of 40 GB that was made before any claim: it takes no counters."""
    attributes = {"profile": profile, "parentUUID": "uuid", "productName": "A100-SXM4-40GB"}
    return Device(name, attributes=attributes, capacity={"memory": "5Gi"})


DEVICES = (
    card("gpu-0", "H100"), card("gpu-1", "A100"), part("part-0", "20Gi"), part("part-1", "50Gi"),
    fixed("fixed-0", "1g.5gb"), fixed("fixed-1", "3g.20gb"),
)  # fmt: skip
SLICE = slice_observed(*DEVICES, counters={"set": {"memory": "80Gi"}})
#: Device to its card, and what it is of it.
SIZES = {
    "gpu-0": ("gpu-0", 1000), "gpu-1": ("gpu-1", 1000), "part-0": ("set", 250), "part-1": ("set", 625),
    "fixed-0": ("uuid", 125), "fixed-1": ("uuid", 500),
}  # fmt: skip
#: A complete list without pods: the end of those of which none was seen.
LISTED = 400


class World:
    """Claims one after the other on each device; pods that name them, some of whose ends nobody saw."""

    def __init__(self, seed):
        chosen = random.Random(seed)
        free = dict.fromkeys((one.name for one in DEVICES), 0)
        self.events = [SLICE]
        #: (devices, begin, end, (start, end or None) of each pod)
        self.claims = []
        for number in range(8):
            claim, team = f"c{number}", chosen.choice(["red", None])
            devices = chosen.sample(sorted(free), chosen.choice([1, 1, 2]))
            at = max(free[one] for one in devices) + chosen.randrange(3)
            end = at + chosen.randrange(1, 40)
            free |= dict.fromkeys(devices, end)
            self.events += [
                claim_observed(claim, *devices, version=2, stamp=at, at=at, team=team),
                claim_observed(claim, version=3, at=end, team=team),
            ]
            pods = []
            for name in range(chosen.randrange(3)):
                pod, start = f"p{number}-{name}", at + chosen.randrange(10)
                self.events.append(
                    given.pod_observed(pod, claims=(claim,), at=start, created=start)
                )
                gone = None
                if chosen.random() < 0.7 and start < end:
                    gone = chosen.randrange(start, end + 1)
                    self.events.append(
                        given.pod_vanished(pod, claims=(claim,), at=gone, created=start)
                    )
                pods.append((start, gone))
            self.claims.append((devices, at, end, pods))
        self.events += [
            *given.pods_listed([], "9", LISTED),
            given.namespace_observed("ns", 1, 50, team="green"),
            given.namespace_observed("ns", 2, 80, team="yellow"),
            given.node_observed("n", 1, 60, model="A30"),
            given.node_observed("n", 2, 70, model="B200"),
        ]

    def seconds(self, until):
        """(card, kind) → milli-card-seconds from the slice's first observation on, counted one by one."""
        found = Counter()
        for devices, begin, end, pods in self.claims:
            free = [
                second for second in range(begin, end)
                if not any(start <= second < (LISTED if gone is None else gone) for start, gone in pods)
            ]  # fmt: skip
            for second in range(begin, end):
                kind = "unknown"
                if any(gone is not None and start <= second < gone for start, gone in pods):
                    kind = "held"
                elif second in free:
                    # Clocks differ by a second: one alone is nobody's.
                    kind = "reserved" if {second - 1, second + 1} & set(free) else ""
                for name, milli in (SIZES[one] for one in devices if kind):
                    found[name, kind] += milli
        for name in {name for name, _ in SIZES.values()}:
            taken = sum(amount for (one, _), amount in found.items() if one == name)
            found[name, "idle"] = 1000 * until - taken
        return +found
