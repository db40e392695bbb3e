"""What of a card is held, reserved and unknown, in any world of claims that share cards: together never more than the card."""

import random
from collections import Counter

import pytest
import sqlalchemy as sa

from bus.events.devices import Device
from projections.devices.shape import card_segments
from tests import factories as given
from tests.projections.claimed import card, claim_observed, slice_observed
from tests.projections.engine.archives import sequenced
from tests.projections.ledger import folded

OPEN = 10**6


def part(name, memory):
    """A partition of a card of 80 GiB."""
    return Device(name, capacity={"memory": memory}, consumes={"set": {"memory": memory}})


DEVICES = (
    card("gpu-0", "H100"), card("gpu-1", "A100"), part("part-0", "20Gi"), part("part-1", "50Gi"),
)  # fmt: skip
SLICE = slice_observed(*DEVICES, counters={"set": {"memory": "80Gi"}})


def world(seed):
    """Claims one after the other on each of few devices; pods that name them, some of whose ends nobody saw."""
    chosen = random.Random(seed)
    free = dict.fromkeys((one.name for one in DEVICES), 0)
    events = [SLICE]
    for number in range(8):
        claim, team = f"c{number}", chosen.choice(["red", None])
        devices = chosen.sample(sorted(free), chosen.choice([1, 1, 2]))
        at = max(free[one] for one in devices) + chosen.randrange(3)
        end = at + chosen.randrange(1, 40)
        free |= dict.fromkeys(devices, end)
        events += [
            claim_observed(claim, *devices, version=2, stamp=at, at=at, team=team),
            claim_observed(claim, version=3, at=end, team=team),
        ]
        for name in range(chosen.randrange(3)):
            pod, start = f"p{number}-{name}", at + chosen.randrange(10)
            events.append(given.pod_observed(pod, claims=(claim,), at=start, created=start))
            if chosen.random() < 0.7 and start < end:
                gone = chosen.randrange(start, end + 1)
                events.append(
                    given.pod_vanished(pod, claims=(claim,), at=gone, created=start)
                )  # fmt: skip
    return [*events, *given.pods_listed([], "9", 400)]


def rows(events, **more):
    store = folded(sequenced(events), **more)
    return sorted(map(tuple, store.select(sa.select(card_segments))), key=repr)


@pytest.mark.parametrize("seed", range(12))
def test_held_reserved_and_unknown_never_pass_a_card(seed):
    for one in ("gpu-0", "gpu-1", "set"):
        changes = Counter()
        for row in rows(world(seed)):
            if row[2].endswith(f"/{one}"):
                changes[row[5]] += row[15]
                changes[OPEN + given.START_S if row[6] is None else row[6]] -= row[15]
        taken = 0
        for second in sorted(changes):
            taken += changes[second]
            assert 0 <= taken <= 1000, (one, second - given.START_S)


@pytest.mark.parametrize("seed", range(6))
def test_the_rows_of_cards_depend_neither_on_order_nor_on_batches_nor_on_restarts(seed):
    events = world(seed)
    mixed = events + events
    random.Random(seed).shuffle(mixed)
    # Who touched a row last depends on the order, all else does not.
    said = [[row[:-1] for row in rows(one)] for one in (events, mixed)]

    assert said[0] == said[1]
    assert len({repr(rows(mixed, batch=n, restart_every=n % 3)) for n in (1, 5, 1000)}) == 1


def test_a_claim_is_reserved_while_no_pod_holds_it_and_for_whom():
    events = [
        given.namespace_observed("ns", team="green"),
        SLICE,
        claim_observed("g", "gpu-0", stamp=0, at=2),
        given.pod_observed("p", claims=("g",), at=10, created=10),
        given.pod_vanished("p", claims=("g",), at=40, created=10),
        claim_observed("g", version=2, at=90),
    ]

    found = [
        (row[3], row[4], row[5] - given.START_S, row[6] - given.START_S, row[14], row[15])
        for row in rows(events)
    ]
    assert found == [
        ("held", "p", 10, 40, "", 1000),
        ("reserved", "", 0, 10, "green", 1000),
        ("reserved", "", 40, 90, "green", 1000),
    ]
