"""Releases of queues decided again: their decider's state is folded again, and its decision repeated.

A release records the last event read by its decider (``based_on``). Its number implies the entries before it in the journal;
its time is the time of the decision. It depends on nothing else.

Decisions on one tree in one look are consecutive in its journal, so all of them and no others must be derived.

Source: docs/architecture.md; docs/reliability.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from bus.envelope import Event
from bus.errors import HistoryDivergedError
from bus.events.admissions import AdmissionDecided, AdmissionReleased
from projections.quota_trees import Tree, TreeOverlay
from projections.quota_trees.tree import Fact
from reactors.admission.deciding.mapping import QuotaRef
from reactors.queue.plan import decided, planned
from reactors.queue.state import QueueState
from reactors.rederive.reader import RederivedReaders
from reactors.rederive.shape import Checked, DecisionDifference

Entry = tuple[Event, Fact]

#: Most readers at a time; each holds the state of a cluster.
READERS = 3


class QueueLook(msgspec.Struct, frozen=True):
    """The common part of the decisions of one look at one tree; looks at all trees come one after the other."""

    tree: str
    based_on: int
    time_us: int

    def is_beside(self, other: QueueLook | None) -> bool:
        """Whether both are of one moment."""
        return other is not None and (self.based_on, self.time_us) == (
            other.based_on,
            other.time_us,
        )


def look_of(event: Event, fact: Fact) -> QueueLook | None:
    """None for an entry from outside the queues."""
    if isinstance(fact, AdmissionDecided):
        is_ours = fact.reason == "released"
    else:
        releases = fact.releases if isinstance(fact, AdmissionReleased) else ()
        is_ours = any(one.reason in ("returning", "returned") for one in releases)
    return QueueLook(event.key, fact.based_on, event.time_us) if is_ours else None


class Releases:
    """The decisions of a cluster's queues, as far as they were read again."""

    def __init__(self, reader: Callable[[], RederivedReaders]) -> None:
        self._new_reader = reader
        self._readers: list[RederivedReaders] = []
        self._last: QueueLook | None = None
        self._elsewhere = 0
        #: Of the newest release: the setting, and whether the window was one of starts.
        self._mapped_only = self._is_paced = False
        self._same = 0
        self._found: list[DecisionDifference] = []

    def apply(self, tree: Tree, look: QueueLook, entries: Sequence[Entry]) -> None:
        """The decisions of the next look, on its tree as its journal is before them."""
        reader = self._reader_at(look.based_on)
        for _, fact in entries:
            if isinstance(fact, AdmissionDecided):
                self._mapped_only = fact.basis is not None and fact.basis.mapped_only
                self._is_paced = fact.basis is not None and fact.basis.window > 0
        reader.view.requires_namespaces = self._mapped_only
        # A process cannot have read events that are not recorded yet.
        reader.reach(min(look.based_on, entries[0][0].sequence - 1))
        elsewhere = self._elsewhere if look.is_beside(self._last) else 0
        differences = _compared(
            reader.lines, tree, list(entries), look, elsewhere, is_paced=self._is_paced
        )
        begun = sum(isinstance(fact, AdmissionDecided) for _, fact in entries)
        self._last, self._elsewhere = look, elsewhere + begun
        self._same += len(entries) - sum(one.recorded is not None for one in differences)
        self._found += differences

    def _reader_at(self, sequence: int) -> RederivedReaders:
        """The most advanced reader that is not beyond ``sequence``, or a new one.

        Of two processes that decide in turns one may always be behind the other: each has its own reader then.
        """
        found = [one for one in self._readers if one.sequence <= sequence]
        if found:
            return max(found, key=lambda one: one.sequence)
        if len(self._readers) == READERS:
            self._readers.remove(min(self._readers, key=lambda one: one.sequence))
        self._readers.append(self._new_reader())
        return self._readers[-1]

    def end(self) -> Checked:
        """The findings, after everything was read."""
        return Checked(self._same, tuple(self._found))


def _compared(
    lines: QueueState,
    tree: Tree,
    batch: list[Entry],
    look: QueueLook,
    elsewhere: int,
    *,
    is_paced: bool,
) -> list[DecisionDifference]:
    found = []

    def tree_of(where: QuotaRef) -> Tree | None:
        node = tree.nodes.get(where.quota)
        return tree if node is not None and node.kind == where.kind else None

    while batch:
        draft = TreeOverlay(tree)
        queues = planned(lines, tree_of).queues.get(tree.name, {})
        decided(
            draft,
            lines,
            queues,
            look.time_us,
            look.based_on,
            elsewhere=elsewhere,
            is_paced=is_paced,
        )
        should = [fact for fact, _ in draft.facts]
        # Two looks at one place of the history may fall into one moment.
        entries, batch = batch[: max(len(should), 1)], batch[max(len(should), 1) :]
        for place, (event, fact) in enumerate(entries):
            expected = should[place] if place < len(should) else None
            if fact != expected:
                found.append(DecisionDifference(event.id, event.sequence, fact, expected))
            store(tree, event, fact)
        last = entries[-1][0]
        found += [
            DecisionDifference(last.id, last.sequence, None, one) for one in should[len(entries) :]
        ]
    return found


def store(tree: Tree, event: Event, fact: Fact) -> None:
    """An entry as every reader takes it."""
    try:
        tree.apply(fact, event.sequence, event.time_us)
    except HistoryDivergedError:
        # Every reader passes over it.
        tree.skip(event.sequence)
