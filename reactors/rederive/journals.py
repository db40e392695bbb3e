"""Whether every decision of the quota trees follows: each journal is read again, and its entries are decided again.

A review's entry says on what it was decided (:class:`bus.events.admissions.Basis`); its number says which entries it stood on,
and its time is the present that was decided at. Reviews that were stored together saw each other in their order. What the
reconciler observed, and what budgets were metered, is passed over and counted.

Source: docs/architecture.md; docs/limits.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import groupby

import msgspec

from bus.clock import Clock
from bus.envelope import Event
from bus.errors import EnvelopeError, HistoryDivergedError
from bus.events.admissions import (
    JOURNAL,
    AdmissionDecided,
    AdmissionReleased,
    TreeMetered,
    entries,
)
from bus.transport import Transport
from projections.quota_trees import Tree, TreeOverlay
from projections.quota_trees.tree import Fact
from reactors.admission.decide import UNANSWERED
from reactors.rederive.reader import History, Reader
from reactors.rederive.releases import Look, Releases, look_of
from reactors.rederive.reviews import Premise, decided_again, has_basis, holds, is_review
from reactors.rederive.shape import Checked, Difference

_JOURNAL: dict[str, type[Fact]] = {fact.wire_type: fact for fact in JOURNAL}


class Rederived(msgspec.Struct, frozen=True):
    """What came of the answers to reviews, and of what queues decided; how many entries were passed over, by reason.

    Reasons: ``older`` (a review of a version that did not record on what it decided), ``observed`` (charged, given back or
    declared because of what was seen), ``unanswered`` (taken back, as nobody heard of it), ``metered`` (a budget, or the
    capacity).
    """

    reviews: Checked
    releases: Checked
    passed_over: Mapping[str, int]


def rederive(history: History, *, cluster: str, transport: Transport, clock: Clock) -> Rederived:
    """Every decision in the journals of ``cluster``, made again of what stands before it."""

    def reader() -> Reader:
        return Reader(history, cluster, transport, clock)

    walk = _Walk(reader)
    for look, batch in groupby(_journal(history, cluster), key=_look):
        if look is None:
            for event, fact in batch:
                walk.take(event, fact)
        else:
            said = [(event, fact) for event, fact in batch if fact is not None]
            walk.releases.take(walk.tree(look.tree), look, said)
    return walk.end()


class _Walk:
    """All journals of a cluster, as far as they were read again."""

    def __init__(self, reader: Callable[[], Reader]) -> None:
        self.releases = Releases(reader)
        self._trees: dict[str, _Journal] = {}
        self._premises = _Premises(reader)
        self._passed_over: Counter[str] = Counter()
        self._same = 0
        self._found: list[Difference] = []

    def tree(self, name: str) -> Tree:
        """A tree after all of its journal that was read."""
        journal = self._journal(name)
        journal.store()
        return journal.tree

    def take(self, event: Event, fact: Fact | None) -> None:
        """The next entry that no queue decided; None: it cannot be read."""
        journal = self._journal(event.key)
        if fact is None:
            journal.skip(event.sequence)
        elif is_review(fact) and has_basis(fact):
            should = journal.decided_again(fact, event.time_us)
            if msgspec.json.encode(should) == msgspec.json.encode(fact) and _is_named(event, fact):
                self._same += 1
                self._premises.take(event, fact)
            else:
                self._found.append(Difference(event.id, event.sequence, fact, should))
            journal.add(event, fact)
        else:
            self._passed_over[_kind(fact)] += 1
            journal.apply(event, fact)

    def end(self) -> Rederived:
        """What was found, when all was read."""
        untrue = self._premises.untrue()
        found = sorted([*self._found, *untrue], key=lambda one: one.sequence)
        reviews = Checked(self._same - len(untrue), tuple(found))
        return Rederived(reviews, self.releases.end(), dict(self._passed_over))

    def _journal(self, name: str) -> _Journal:
        found = self._trees.get(name)
        if found is None:
            found = self._trees[name] = _Journal(name)
        return found


class _Journal:
    """One tree, and on top of it the reviews that were stored together, as far as they were read."""

    def __init__(self, name: str) -> None:
        self.tree = Tree(name)
        self._draft = TreeOverlay(self.tree)
        self._stored: list[tuple[Event, Fact]] = []

    def decided_again(self, fact: Fact, time_us: int) -> Fact:
        """What the rules make of a review here."""
        if fact.based_on != self.tree.sequence:
            # The first of those that were stored next.
            self.store()
        return decided_again(self._draft, fact, time_us)

    def add(self, event: Event, fact: Fact) -> None:
        """A review: those that were decided with it stand on it, though it was not stored yet."""
        self._draft.add(fact, event.time_us)
        self._stored.append((event, fact))

    def store(self) -> None:
        """What was decided together is stored; who comes next knows of it."""
        stored, self._stored = self._stored, []
        for event, fact in stored:
            self._put(event, fact)
        self._draft = TreeOverlay(self.tree)

    def apply(self, event: Event, fact: Fact) -> None:
        """Any other entry."""
        self.store()
        self._put(event, fact)

    def skip(self, sequence: int) -> None:
        """Something that is no entry."""
        self.store()
        self.tree.skip(sequence)

    def _put(self, event: Event, fact: Fact) -> None:
        try:
            self.tree.apply(fact, event.sequence, event.time_us)
        except HistoryDivergedError:
            # Every reader passes over it.
            self.tree.skip(event.sequence)


class _Premises:
    """What reviews read of the cluster, compared with what was to be read there.

    Several processes have read to different places. What lies behind the reader waits for a second reading, in order.
    """

    def __init__(self, reader: Callable[[], Reader]) -> None:
        self._reader = reader
        self._first: Reader | None = None
        self._late: list[Premise] = []
        self._untrue: list[Difference] = []

    def take(self, event: Event, fact: Fact) -> None:
        if not isinstance(fact, AdmissionDecided) or fact.basis is None:
            return
        premise = Premise(fact.basis.read, event, fact)
        if self._first is None:
            self._first = self._reader()
        if premise.read < self._first.sequence:
            self._late.append(premise)
        else:
            self._check(self._first, premise)

    def untrue(self) -> list[Difference]:
        """The decisions that rest on something else than was there."""
        if self._late:
            second = self._reader()
            for premise in sorted(self._late, key=lambda one: one.read):
                self._check(second, premise)
            self._late = []
        return self._untrue

    def _check(self, reader: Reader, premise: Premise) -> None:
        # Nobody can have read what was not said yet.
        is_before = premise.read < premise.event.sequence
        if is_before:
            reader.reach(premise.read)
        if not (is_before and holds(premise, reader.view)):
            self._untrue.append(
                Difference(premise.event.id, premise.event.sequence, premise.fact, None)
            )


def _journal(history: History, cluster: str) -> Iterator[tuple[Event, Fact | None]]:
    """The entries of all journals, each by itself; None for one that every reader passes over."""
    for event in history():
        if event.cluster != cluster or not event.type.startswith("admission."):
            continue
        try:
            found = [(one, _JOURNAL[one.type].read(one)) for one in entries(event)]
        except (EnvelopeError, KeyError):
            yield event, None
        else:
            yield from found


def _look(entry: tuple[Event, Fact | None]) -> Look | None:
    event, fact = entry
    return look_of(event, fact) if fact is not None else None


def _is_named(event: Event, fact: Fact) -> bool:
    """Whether the entry has the id of its request and number."""
    request = getattr(fact, "request", "")
    return event.id == f"{event.cluster}/admission/{request}/{fact.number}"


def _kind(fact: Fact) -> str:
    if is_review(fact):
        return "older"
    if isinstance(fact, TreeMetered):
        return "metered"
    told = fact.releases if isinstance(fact, AdmissionReleased) else ()
    return "unanswered" if any(one.reason == UNANSWERED for one in told) else "observed"
