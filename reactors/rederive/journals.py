"""Verification of quota trees' decisions: each journal is read again, and its entries are decided again.

An entry records its basis (:class:`bus.events.admissions.Basis`, :class:`bus.events.admissions.ChargeEvidence`). Its number
implies the entries before it, and its time is the time of the decision. Entries stored together built on each other in
their order. Meters of budgets are skipped and counted.

Source: docs/architecture.md; docs/limits.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from heapq import heappop, heappush
from itertools import count, groupby
from operator import itemgetter

import msgspec

from bus.clock import Clock
from bus.envelope import MALFORMED, Event
from bus.errors import EnvelopeError
from bus.events.admissions import JOURNAL, TreeMetered, entries
from bus.transport import Transport
from projections.quota_trees import Tree, TreeOverlay
from projections.quota_trees.tree import Fact
from reactors.rederive import observed, reviews
from reactors.rederive.reader import History, RederivedReaders
from reactors.rederive.releases import QueueLook, Releases, look_of, store
from reactors.rederive.shape import Checked, DecisionDifference

#: The largest lag of a process, in events, for its entries to be compared in the first reading.
BEHIND = 10_000

_encode = msgspec.json.encode
_JOURNAL: dict[str, type[Fact]] = {fact.wire_type: fact for fact in JOURNAL}


class RederivedAnswers(msgspec.Struct, frozen=True):
    """The results for answers to reviews, for observations, and for queues; and the skipped entries, by reason.

    Reasons: ``older`` (an entry of a version that did not record its basis), ``metered`` (a budget).
    """

    reviews: Checked
    observed: Checked
    releases: Checked
    passed_over: Mapping[str, int]


def rederive(
    history: History, *, cluster: str, transport: Transport, clock: Clock
) -> RederivedAnswers:
    """Every decision in the journals of ``cluster``, made again from the history before it."""

    def reader() -> RederivedReaders:
        return RederivedReaders(history, cluster, transport, clock)

    walk = _Walk(reader)
    for look, batch in groupby(_journal(history, cluster), key=_look):
        if look is None:
            for event, fact in batch:
                walk.apply(event, fact)
        else:
            recorded = [(event, fact) for event, fact in batch if fact is not None]
            walk.releases.apply(walk.tree(look.tree), look, recorded)
    return walk.end()


class _Tally:
    """Equal entries of one kind, and different ones."""

    def __init__(self) -> None:
        self._same = 0
        self._found: list[DecisionDifference] = []

    def compare(self, event: Event, fact: Fact, should: Fact | None, id: str) -> bool:
        """Whether an entry has the derived content, and the derived id."""
        is_same = should is not None and _encode(should) == _encode(fact) and event.id == id
        if is_same:
            self._same += 1
        else:
            self._found.append(DecisionDifference(event.id, event.sequence, fact, should))
        return is_same

    def end(self, untrue: list[DecisionDifference]) -> Checked:
        """The findings, with equal entries on a wrong basis included."""
        found = sorted([*self._found, *untrue], key=lambda one: one.sequence)
        return Checked(self._same - len(untrue), tuple(found))


class _Walk:
    """All journals of a cluster, as far as they were read again."""

    def __init__(self, reader: Callable[[], RederivedReaders]) -> None:
        self.releases = Releases(reader)
        self._trees: dict[str, _Journal] = {}
        self._premises = _Premises(reader)
        self._passed_over: Counter[str] = Counter()
        self._reviews, self._observed = _Tally(), _Tally()
        self._malformed: set[int] = set()

    def tree(self, name: str) -> Tree:
        """A tree after the read part of its journal."""
        journal = self._journal(name)
        journal.store()
        return journal.tree

    def apply(self, event: Event, fact: Fact | None) -> None:
        """Check the next entry from outside the queues; None: it cannot be read."""
        if event.type == MALFORMED:
            self._malformed.add(event.sequence)
            return
        journal = self._journal(event.key)
        if fact is None:
            journal.skip(event.sequence)
            return
        is_review = reviews.is_review(fact)
        if not (reviews.has_basis(fact) if is_review else observed.evidence_of(fact)):
            is_budget = isinstance(fact, TreeMetered) and fact.total is None
            self._passed_over["metered" if is_budget else "older"] += 1
            journal.apply(event, fact)
            return
        if fact.based_on in self._malformed:
            # It was in this journal, but its content does not name the journal.
            journal.skip(fact.based_on)
        draft = journal.draft(fact.based_on)
        if is_review:
            should: Fact | None = reviews.decided_again(draft, fact, event.time_us)
            is_same = self._reviews.compare(event, fact, should, reviews.id_of(event, fact))
        else:
            should = observed.made_again(draft, fact)
            is_same = self._observed.compare(event, fact, should, observed.id_of(event, fact))
        if is_same:
            self._premises.apply(event, fact)
        journal.add(event, fact)

    def end(self) -> RederivedAnswers:
        """The findings, after everything was read."""
        untrue = self._premises.untrue()
        asked = [one for one in untrue if one.recorded and reviews.is_review(one.recorded)]
        seen = [one for one in untrue if one not in asked]
        return RederivedAnswers(
            self._reviews.end(asked), self._observed.end(seen), self.releases.end(),
            dict(self._passed_over),
        )  # fmt: skip

    def _journal(self, name: str) -> _Journal:
        found = self._trees.get(name)
        if found is None:
            found = self._trees[name] = _Journal(name)
        return found


class _Journal:
    """One tree, and on top of it the entries stored together, as far as they were read."""

    def __init__(self, name: str) -> None:
        self.tree = Tree(name)
        self._draft = TreeOverlay(self.tree)
        self._stored: list[tuple[Event, Fact]] = []

    def draft(self, based_on: int) -> TreeOverlay:
        """The base of the next entry, whose decider had read up to ``based_on``."""
        if based_on != self.tree.sequence:
            # The first entry of the next batch.
            self.store()
        return self._draft

    def add(self, event: Event, fact: Fact) -> None:
        """Add an entry: those decided with it build on it, though it was not stored yet."""
        self._draft.add(fact, event.time_us)
        self._stored.append((event, fact))

    def store(self) -> None:
        """Store the entries decided together; the next entry builds on them."""
        stored, self._stored = self._stored, []
        for event, fact in stored:
            store(self.tree, event, fact)
        self._draft = TreeOverlay(self.tree)

    def apply(self, event: Event, fact: Fact) -> None:
        """Any other entry."""
        self.store()
        store(self.tree, event, fact)

    def skip(self, sequence: int) -> None:
        """Skip an event that is no entry."""
        self.store()
        self.tree.skip(sequence)


class _Premises:
    """The recorded reads of the cluster for an entry, compared with the history there.

    Several processes have read up to different places. So an entry waits until the journals were read :data:`BEHIND` events
    further, and waiting entries are compared in the order of their reads. Entries with a larger lag wait for a second
    reading, in order.
    """

    def __init__(self, reader: Callable[[], RederivedReaders]) -> None:
        self._new_reader = reader
        self._reader: RederivedReaders | None = None
        #: A heap, by the last read event, and in the order of the journals.
        self._waiting: list[tuple[int, int, Event, Fact]] = []
        self._count = count()
        self._late: list[tuple[int, int, Event, Fact]] = []
        self._untrue: list[DecisionDifference] = []

    def apply(self, event: Event, fact: Fact) -> None:
        """Check a derived entry: its recorded reads must match the history."""
        basis = observed.evidence_of(fact)
        if basis is None:
            # The answer to the review of a quota reads its journal alone.
            return
        if basis.read >= event.sequence:
            # A process cannot have read events that are not recorded yet.
            self._untrue.append(DecisionDifference(event.id, event.sequence, fact, None))
            return
        heappush(self._waiting, (basis.read, next(self._count), event, fact))
        self._compare(event.sequence - BEHIND)

    def untrue(self) -> list[DecisionDifference]:
        """The entries with a basis other than the history's."""
        if self._waiting:
            self._compare(max(self._waiting)[0])
        if self._late:
            second = self._new_reader()
            for read, _, event, fact in sorted(self._late, key=itemgetter(0, 1)):
                self._check(second, read, event, fact)
            self._late = []
        return self._untrue

    def _compare(self, until: int) -> None:
        """Compare entries that had read no further than ``until``."""
        while self._waiting and self._waiting[0][0] <= until:
            late = read, _, event, fact = heappop(self._waiting)
            if self._reader is None:
                self._reader = self._new_reader()
            if read < self._reader.sequence:
                self._late.append(late)
            else:
                self._check(self._reader, read, event, fact)

    def _check(self, reader: RederivedReaders, read: int, event: Event, fact: Fact) -> None:
        reader.reach(read)
        if reviews.is_review(fact):
            is_true = reviews.is_true(event.key, fact, reader.view)
        else:
            is_true = observed.is_true(fact, reader.view)
        if not is_true:
            self._untrue.append(DecisionDifference(event.id, event.sequence, fact, None))


def _journal(history: History, cluster: str) -> Iterator[tuple[Event, Fact | None]]:
    """The entries of all journals, each by itself; None for one that every reader skips."""
    for event in history():
        is_entry = event.type.startswith("admission.") or event.type == MALFORMED
        if event.cluster != cluster or not is_entry:
            continue
        try:
            found = [(one, _JOURNAL[one.type].read(one)) for one in entries(event)]
        except (EnvelopeError, KeyError):
            yield event, None
        else:
            yield from found


def _look(entry: tuple[Event, Fact | None]) -> QueueLook | None:
    event, fact = entry
    return look_of(event, fact) if fact is not None else None
