"""Whether every release follows from the history: the state that its decider had is folded again, and decided on again.

A release says which events its decider had read (``based_on``), and its number which entries of the journal it stood on;
its time is the present that was decided at. Nothing else goes into it.

What was decided on one tree in one look stands together in its journal, so all of it and nothing else must come out.

Source: docs/architecture.md; docs/reliability.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby

import msgspec

from bus.clock import Clock
from bus.envelope import Event
from bus.errors import EnvelopeError, HistoryDivergedError
from bus.events.admissions import JOURNAL, AdmissionDecided, AdmissionReleased, entries
from bus.transport import Transport
from projections.quota_trees import Tree, TreeOverlay
from projections.quota_trees.tree import Fact
from reactors.admission.mapping import QuotaRef
from reactors.admission.state import AdmissionState
from reactors.engine.journals import Journals
from reactors.queue.plan import decided, planned
from reactors.queue.state import QueueState

_JOURNAL: dict[str, type[Fact]] = {fact.wire_type: fact for fact in JOURNAL}

History = Callable[[], Iterable[Event]]
"""All events of one cluster in order, as they were stored; asked several times."""


class Difference(msgspec.Struct, frozen=True):
    """A decision that does not follow: what was said at ``sequence`` under ``id``, and what should have been.

    ``should`` None: nothing should. ``said`` None: nothing was, beside the others of its look; ``id`` and ``sequence`` are
    those of the last of them.
    """

    id: str
    sequence: int
    said: Fact | None
    should: Fact | None


class Checked(msgspec.Struct, frozen=True):
    """How many decisions of queues came out the same, and those that did not."""

    same: int
    differences: tuple[Difference, ...]


class _Known:
    """What a decider knew after a sequence: the view and the queues, kept by the product's own readers."""

    def __init__(self, history: History, cluster: str, transport: Transport, clock: Clock) -> None:
        self._events = iter(history())
        self._next = next(self._events, None)
        self.sequence = 0
        journals = Journals(transport, clock, cluster=cluster, source="rederive")
        self.view = AdmissionState(cluster, journals)
        self._journals = journals
        journals.listen(self.view.take)
        self.lines = QueueState(self.view)
        journals.listen(self.lines.take)

    def reach(self, sequence: int) -> None:
        """Read on up to ``sequence``."""
        self.sequence = sequence
        while self._next is not None and self._next.sequence <= sequence:
            self._journals.take([self._next])
            # Nobody works these off here.
            self.view.unmark()
            self._next = next(self._events, None)


class _Look(msgspec.Struct, frozen=True):
    """What the decisions of one look at one tree have in common; looks at all trees come one after the other."""

    tree: str
    based_on: int
    time_us: int

    def is_beside(self, other: _Look | None) -> bool:
        """Whether both are of one moment."""
        return other is not None and (self.based_on, self.time_us) == (
            other.based_on,
            other.time_us,
        )


def rederived(history: History, *, cluster: str, transport: Transport, clock: Clock) -> Checked:
    """Every decision of the queues of ``cluster``, made again of what stands before it.

    ``transport`` and ``clock`` are not asked for anything: the readers of a running process have them.
    """
    known = _Known(history, cluster, transport, clock)
    trees: dict[str, Tree] = {}
    same, found = 0, list[Difference]()
    last: _Look | None = None
    elsewhere = 0
    for look, batch in groupby(_journal(history, cluster), key=_look):
        if look is None:
            for event in batch:
                _apply(trees.setdefault(event.key, Tree(event.key)), event)
            continue
        said = list(batch)
        if look.based_on < known.sequence:
            # Another process decided, which was behind.
            known = _Known(history, cluster, transport, clock)
        # Nobody can have read what was not said yet.
        known.reach(min(look.based_on, said[0].sequence - 1))
        elsewhere = elsewhere if look.is_beside(last) else 0
        tree = trees.setdefault(look.tree, Tree(look.tree))
        differences = _compared(known, tree, said, look, elsewhere)
        last, elsewhere = look, elsewhere + sum(e.type == AdmissionDecided.wire_type for e in said)
        same += len(said) - sum(one.said is not None for one in differences)
        found += differences
    return Checked(same, tuple(found))


def _journal(history: History, cluster: str) -> Iterator[Event]:
    """The entries of all journals, each by itself."""
    for event in history():
        if event.cluster != cluster or event.defect or not event.type.startswith("admission."):
            continue
        try:
            yield from (one for one in entries(event) if one.type in _JOURNAL)
        except EnvelopeError:
            continue  # Every reader passes over it.


def _look(event: Event) -> _Look | None:
    """None for what no queue decided."""
    try:
        fact = _JOURNAL[event.type].read(event)
    except EnvelopeError:
        return None
    return _Look(event.key, fact.based_on, event.time_us) if _is_ours(fact) else None


def _is_ours(fact: Fact) -> bool:
    if isinstance(fact, AdmissionDecided):
        return fact.reason == "released"
    if isinstance(fact, AdmissionReleased):
        return any(one.reason in ("returning", "returned") for one in fact.releases)
    return False


def _compared(
    known: _Known, tree: Tree, batch: list[Event], look: _Look, elsewhere: int
) -> list[Difference]:
    found = []

    def tree_of(where: QuotaRef) -> Tree | None:
        node = tree.nodes.get(where.quota)
        return tree if node is not None and node.kind == where.kind else None

    while batch:
        draft = TreeOverlay(tree)
        queues = planned(known.lines, tree_of).queues.get(tree.name, {})
        decided(draft, known.lines, queues, look.time_us, look.based_on, elsewhere=elsewhere)
        should = [fact for fact, _ in draft.facts]
        # Two looks at one place of the history may fall into one moment.
        said, batch = batch[: max(len(should), 1)], batch[max(len(should), 1) :]
        for place, event in enumerate(said):
            fact = _JOURNAL[event.type].read(event)
            expected = should[place] if place < len(should) else None
            if fact != expected:
                found.append(Difference(event.id, event.sequence, fact, expected))
            _apply(tree, event)
        last = said[-1]
        found += [Difference(last.id, last.sequence, None, one) for one in should[len(said) :]]
    return found


def _apply(tree: Tree, event: Event) -> None:
    try:
        tree.apply(_JOURNAL[event.type].read(event), event.sequence, event.time_us)
    except (EnvelopeError, HistoryDivergedError):
        # Every reader passes over it.
        tree.skip(event.sequence)
