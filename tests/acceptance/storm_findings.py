"""What must hold after any storm, found in its history by sums of its own."""

import asyncio
from collections import Counter, defaultdict
from dataclasses import dataclass, field

import msgspec

from bus.clock import SystemClock
from bus.events.admissions import (
    JOURNAL,
    AdmissionDecided,
    AdmissionReleased,
    QuotaDeclared,
    entries,
)
from projections.quota_trees import Tree
from reactors.rederive.journals import rederive
from tests.acceptance.webhook_process import CLUSTER, described

_JOURNAL = {fact.wire_type: fact for fact in JOURNAL}


@dataclass
class Findings:
    """What was found in one history of journals."""

    #: (sequence, quota, key, used, hard) wherever an entry raised what is held, and it was more than is allowed.
    over: list = field(default_factory=list)
    #: The same of what exists whatever is allowed: what was adopted, or is an orphan's part.
    forced: list = field(default_factory=list)
    #: (sequence, tree, number) that does not follow the one before.
    gaps: list = field(default_factory=list)
    verdicts: Counter = field(default_factory=Counter)
    reasons: Counter = field(default_factory=Counter)
    #: Uid of the review to the sequence of its first decision.
    decided: dict = field(default_factory=dict)
    #: (quota, uid) to all that was ever admitted for it.
    charges: dict = field(default_factory=lambda: defaultdict(list))
    events: int = 0


class Sweep:
    """Sums up one history by rules of its own, entry by entry."""

    def __init__(self):
        self.findings = Findings()
        self._hard, self._parents = {}, {}
        self._charges = {}
        self._used = defaultdict(Counter)
        self._numbers = Counter()

    def apply(self, event):
        self.findings.events += 1
        fact = _JOURNAL.get(event.type)
        if fact is None:
            return
        fact, found = fact.read(event), self.findings
        if fact.number != self._numbers[event.key] + 1:
            found.gaps.append((event.sequence, event.key, fact.number))
        self._numbers[event.key] = fact.number
        before = {quota: self._used[quota].copy() for quota in self._touched(fact)}
        is_forced = isinstance(fact, AdmissionDecided) and (
            fact.verdict == "adopted" or fact.reason == "orphaned"
        )
        self._apply(fact, event.sequence)
        for quota, was in before.items():
            used = self._used[quota]
            for key, hard in self._hard.get(quota, {}).items():
                if used[key] > max(hard, was[key]):
                    one = (event.sequence, quota, key, used[key], hard)
                    (found.forced if is_forced else found.over).append(one)

    def _touched(self, fact):
        """The quotas in which an entry may raise what is held."""
        if isinstance(fact, QuotaDeclared):
            return (fact.quota, fact.parent)
        return (fact.quota,) if isinstance(fact, AdmissionDecided) else ()

    def _apply(self, fact, sequence):
        found = self.findings
        if isinstance(fact, QuotaDeclared):
            if fact.verdict == "refused":
                return
            # Declared when it is asked for, and again when it is seen.
            self._used[fact.parent].subtract(self._hard.get(fact.quota, {}))
            self._hard[fact.quota] = fact.spec.hard
            self._used[fact.parent].update(fact.spec.hard)
            return
        if isinstance(fact, AdmissionDecided):
            found.verdicts[fact.verdict] += 1
            found.reasons[fact.reason] += 1
            if fact.verdict == "refused":
                return
            found.decided.setdefault(fact.request, sequence)
            found.charges[fact.quota, fact.uid].append(fact.charge)
            self._charge((fact.quota, fact.uid), fact.charge)
            if fact.left is not None:
                self._charge((fact.quota, fact.left.uid), fact.left.charge)
            return
        assert isinstance(fact, AdmissionReleased)
        for release in fact.releases:
            found.reasons[release.reason] += 1
            self._charge((release.quota, release.uid), release.charge)

    def _charge(self, holder, charge):
        used = self._used[holder[0]]
        used.subtract(self._charges.pop(holder, {}))
        used.update(charge)
        self._charges[holder] = charge


async def swept(storm):
    """Findings, and the trees that one gets who reads the history from the beginning."""
    sweep, trees = Sweep(), {}
    async for batch in storm.door.read(after=0, live=False):
        for event in (one for whole in batch for one in entries(whole)):
            sweep.apply(event)
            if (fact := _JOURNAL.get(event.type)) and not storm.plan.careless:
                tree = trees.setdefault(event.key, Tree(event.key))
                tree.apply(fact.read(event), event.sequence, event.time_us)
    return sweep.findings, msgspec.json.decode(msgspec.json.encode(described(trees.values())))


async def derived_again(storm):
    """What comes of deriving the journals again from the history, whichever process decided."""
    told = [e async for part in storm.door.read(after=0, live=False) for e in part]
    return await asyncio.to_thread(
        rederive, lambda: told, cluster=CLUSTER, transport=storm.door, clock=SystemClock()
    )


def held_too_much(server, quotas):
    """(place in the API server's log, quota, key, held, hard) wherever it stored more than is allowed."""
    held, used, found = {}, defaultdict(Counter), []
    for parent, hard in quotas.values():
        used[parent].update(hard)
    for place, (uid, quota, amounts) in enumerate(server.log):
        before, less = held.pop(uid, (quota, {}))
        used[before].subtract(less)
        if amounts:
            held[uid] = quota, amounts
            used[quota].update(amounts)
        found += [
            (place, quota, key, used[quota][key], hard)
            for key, hard in quotas[quota][1].items()
            if used[quota][key] > hard
        ]
    return found


async def blown(storm):
    """The storm when it has come to rest, with its findings and all that its processes say."""
    async with storm.running():
        await storm.blow()
        storm.settled = await storm.settle() if not storm.plan.careless else None
        if storm.ledger:
            storm.head = (await storm.door.head()).last_sequence
            storm.booked = await storm.ledger.reached(storm.head)
            storm.rebuilt = await asyncio.to_thread(storm.ledger.rebuilt)
            storm.ledger.store.close()
        storm.findings, storm.replayed = await swept(storm)
        storm.derived = await derived_again(storm)
        storm.stored_over = held_too_much(storm.server, storm.quotas)
    return storm


def held_true(storm):
    """Everything that must hold after any storm, whatever API server it was at."""
    found, (wanted, held, told) = storm.findings, storm.settled
    print(
        f"{found.events} events, {dict(found.verdicts)}, {dict(found.reasons)}, "
        f"{dict(storm.faults)}"
    )
    # The first of each is enough to begin with: they can be thousands.
    assert found.gaps[:3] == []
    assert found.over[:3] == []
    assert storm.stored_over[:3] == [], storm.stored_over[:3]
    assert found.verdicts["adopted"] == 0
    assert storm.derived.reviews.differences[:3] == storm.derived.observed.differences[:3] == ()
    assert storm.derived.reviews.same >= found.verdicts["admitted"] + found.verdicts["refused"] > 0
    assert [wanted] * 4 == held
    assert [storm.replayed] * 4 == told
    if storm.ledger:
        archived, parked = storm.booked
        assert archived[: storm.head] == list(range(1, storm.head + 1))
        assert parked == []
        # A list may have been said since.
        assert storm.rebuilt.sequence >= storm.head
        assert storm.rebuilt.equal, storm.rebuilt.differences
