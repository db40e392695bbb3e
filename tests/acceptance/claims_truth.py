"""What pods held of which cards, and what of them was reserved, by the versions that a plain watch told. Pure.

The rules of docs/devices.md once more, for what :mod:`tests.acceptance.claims_churn` does, in the simplest way: second by second.
"""

from collections import defaultdict
from itertools import groupby, pairwise

from tests.acceptance.bookkeeping import SECOND_US, second
from tests.acceptance.claims_cards import CARD_GIB, DRIVER, parts

#: Later than all that is observed: the end of what goes on.
EVER = 2**33
_GIB = {name: gib for name, _, gib in parts()}
MODELS = {"w": "NVIDIA-H100", "p": "NVIDIA-A100", "s": "NVIDIA-L40S"}


def sized(result):
    """(card, milli-cards, MiB) of a result of an allocation."""
    pool, device = result["pool"], result["device"]
    if pool.startswith("parts"):
        gib, card = _GIB[device], device.partition("-part-")[0]
    elif pool.startswith("shares"):
        gib, card = int(result["consumedCapacity"]["memory"].removesuffix("Gi")), device
    else:
        gib, card = CARD_GIB, device
    return f"{DRIVER}/{pool}/{card}", 1000 * gib // CARD_GIB, 1024 * gib


def started(thing):
    """When a version of a pod says that it began to hold; None while it is not bound."""
    for condition in thing["status"].get("conditions", ()):
        if condition["type"] == "PodScheduled" and condition["status"] == "True":
            return second(condition["lastTransitionTime"])
    return None


def ended(things):
    """When a pod stopped to hold by its versions; None while it does."""
    ends = []
    for thing in things:
        if thing["metadata"].get("deletionGracePeriodSeconds") == 0:
            ends.append(second(thing["metadata"]["deletionTimestamp"]))
        if thing["status"]["phase"] == "Succeeded":
            (status,) = thing["status"]["containerStatuses"]
            ends.append(second(status["state"]["terminated"]["finishedAt"]))
    return min(ends, default=None)


def requests(pod):
    """(milli-cores, MiB, milli-cards) that the container of a pod requests."""
    (container,) = pod["spec"]["containers"]
    wants = container["resources"]["requests"]
    cpu, memory = wants["cpu"], wants["memory"]
    return (
        int(cpu[:-1]) if cpu.endswith("m") else 1000 * int(cpu),
        1024 * int(memory[:-2]) if memory.endswith("Gi") else int(memory[:-2]),
        1000 * int(wants.get("nvidia.com/gpu", 0)),
    )


class Claim:
    """One claim: its allocation [begin, end), its results, and the pods that hold it."""

    def __init__(self, told):
        """``told``: (change, object, microsecond of its arrival), as they came."""
        self.metadata = told[0][1]["metadata"]
        owners = self.metadata.get("ownerReferences") or [{}]
        self.owner = owners[0].get("uid")
        self.results, self.begin, self.end = [], EVER, EVER
        for change, thing, at_us in told:
            allocation = thing.get("status", {}).get("allocation")
            if allocation and not self.results:
                self.results = allocation["devices"]["results"]
                self.begin = min(second(allocation["allocationTimestamp"]), at_us // SECOND_US)
            if self.results and self.end == EVER and (change == "DELETED" or not allocation):
                self.end = at_us // SECOND_US
        self.pods = []

    def is_of(self, pod):
        """Whether a pod's names, or the one it was made for, make it that pod's."""
        return self.owner == pod.uid if self.owner else self.metadata["name"] in pod.claims


class Pod:
    """One pod: when it began and stopped to hold, and what its requests say."""

    def __init__(self, told):
        things = [thing for _, thing, _ in told]
        self.metadata = things[0]["metadata"]
        self.uid, self.name = self.metadata["uid"], self.metadata["name"]
        self.created = second(self.metadata["creationTimestamp"])
        self.start = min(filter(None, map(started, things)), default=None)
        end = ended(things)
        self.end = (
            EVER if end is None else max(end, self.created if self.start is None else self.start)
        )
        self.node = next(
            (one["spec"]["nodeName"] for one in things if "nodeName" in one["spec"]), ""
        )
        self.claims = {
            one["resourceClaimName"]
            for thing in things
            for one in (
                *thing["spec"].get("resourceClaims", ()),
                *thing["status"].get("resourceClaimStatuses", ()),
                *filter(None, [thing["status"].get("extendedResourceClaimStatus")]),
            )
            if "resourceClaimName" in one
        }
        is_mapped = any("extendedResourceClaimStatus" in thing["status"] for thing in things)
        self.cpu, self.memory, cards = requests(things[0])
        self.plain = 0 if is_mapped else cards

    @property
    def team(self):
        """The team that its label names."""
        return self.metadata["labels"]["bursar.io/team"]


def held(claim):
    """(card, pod, from, until, milli, MiB) of each piece of a claim that a pod holds: what several hold is divided."""
    cuts = {
        claim.begin,
        claim.end,
        *(one.start for one in claim.pods),
        *(one.end for one in claim.pods),
    }
    cuts = sorted(cuts)
    for begin, until in pairwise(cuts):
        holding = sorted((one.start, one.uid) for one in claim.pods if one.start <= begin < one.end)
        for number, result in enumerate(claim.results):
            card, *amounts = sized(result)
            for place, (_, uid) in enumerate(holding):
                shares = [one // len(holding) + (place < one % len(holding)) for one in amounts]
                yield (number, card, uid), begin, until, *shares


def reserved(claim):
    """Card to the intervals in which a claim has it and no pod of it holds, and milli-cards."""
    busy = sorted((one.start, one.end) for one in claim.pods if one.start < one.end)
    free, at = [], claim.begin
    for start, end in [*busy, (claim.end, claim.end)]:
        if at < min(start, claim.end):
            free.append((at, min(start, claim.end)))
        at = max(at, end)
    return {card: (free, milli) for card, milli, _ in map(sized, claim.results)}


def joined(pieces):
    """Intervals (key, from, until, *amounts) by key, those that follow each other with equal amounts as one."""
    found = defaultdict(list)
    for key, begin, until, *amounts in sorted(pieces):
        rows = found[key]
        if rows and rows[-1][1] == begin and list(rows[-1][2:]) == amounts:
            rows[-1] = (rows[-1][0], until, *amounts)
        else:
            rows.append((begin, until, *amounts))
    return dict(found)


class Truth:
    """All pods and claims of a churn."""

    def __init__(self, pods, claims):
        """Each: uid to what was told of it."""
        self.pods = {uid: Pod(told) for uid, told in pods.items()}
        self.claims = {uid: Claim(told) for uid, told in claims.items()}
        for claim in self.claims.values():
            claim.pods = [
                one for one in self.pods.values() if one.start is not None and claim.is_of(one)
            ]
        self.pieces = joined(
            ((uid, *key), *rest) for uid, one in self.claims.items() for key, *rest in held(one)
        )

    def segments(self, uid):
        """(from, until, cpu, MiB, milli-cards, device MiB, team, node, model) of a pod; equal ones that follow are one."""
        pod = self.pods[uid]
        if pod.start is None or pod.start >= pod.end:
            return []
        mine = [
            row for (_, _, _, holder), rows in self.pieces.items() if holder == uid for row in rows
        ]
        cuts = sorted({pod.start, pod.end, *(at for row in mine for at in row[:2])})
        model = MODELS.get(pod.node[0]) if pod.node != "plugin" else "NVIDIA-V100"
        pieces = []
        for begin, until in pairwise(cuts):
            now = [row for row in mine if row[0] <= begin < row[1]]
            cards, memory = pod.plain + sum(r[2] for r in now), sum(r[3] for r in now)
            pieces.append(
                (0, begin, until, pod.cpu, pod.memory, cards, memory, pod.team, pod.node, model)
            )
        return joined(pieces)[0]


def told_by_uid(told):
    """Uid to (change, object, microsecond), of all that one watch told."""
    by_uid = sorted(told, key=lambda one: one[1]["metadata"]["uid"])
    return {
        uid: list(found)
        for uid, found in groupby(by_uid, key=lambda one: one[1]["metadata"]["uid"])
    }
