"""Whether every release follows from the history: the state that its decider had is folded again, and decided on again.

A release says which events its decider had read (``based_on``), and its number which entries of the journal it stood on;
its time is the present that was decided at. Nothing else goes into it.

Source: ``house.md`` section 5; ``reliability.md`` P29.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import msgspec

from bus.clock import Clock
from bus.envelope import Event
from bus.errors import EnvelopeError, HistoryDivergedError
from bus.events.admissions import JOURNAL, AdmissionDecided, AdmissionReleased, entries
from bus.transport import Transport
from projections.admissions import Draft, Tree
from projections.admissions.tree import Fact
from reactors.admission.keeper import Keeper
from reactors.admission.mapping import Place
from reactors.admission.view import View
from reactors.engine.journals import Journals
from reactors.queue.lines import Lines
from reactors.queue.plan import decided, planned

_JOURNAL: dict[str, type[Fact]] = {fact.wire_type: fact for fact in JOURNAL}


class Difference(msgspec.Struct, frozen=True):
    """A decision that does not follow: what was said at ``sequence``, and what should have been (None: nothing)."""

    sequence: int
    said: Fact
    should: Fact | None


class _Known:
    """What a decider knew after a sequence: the view and the queues, kept by the product's own readers."""

    def __init__(
        self, events: Sequence[Event], cluster: str, transport: Transport, clock: Clock
    ) -> None:
        self._events = [event for event in events if event.cluster == cluster]
        self._read = 0
        journals = Journals(transport, clock, cluster=cluster, source="rederive")
        self.view = View(cluster)
        self._journals = journals
        journals.listen(self.view.take)
        # It forgets what a complete list does not show.
        Keeper(journals, self.view, clock)
        self.lines = Lines(self.view)
        journals.listen(self.lines.take)

    def reach(self, sequence: int) -> None:
        """Read on up to ``sequence``."""
        while self._read < len(self._events) and self._events[self._read].sequence <= sequence:
            self._journals.take([self._events[self._read]])
            self._read += 1


def differences(
    events: Sequence[Event], *, cluster: str, transport: Transport, clock: Clock
) -> list[Difference]:
    """Every release in a whole history that does not follow from what stands before it.

    ``transport`` and ``clock`` are not asked for anything: the readers of a running process have them.
    """
    known = _Known(events, cluster, transport, clock)
    reached = 0
    trees: dict[str, Tree] = {}
    found: list[Difference] = []
    ours = (e for e in events if e.cluster == cluster)
    mine = (e for event in ours for e in _entries(event) if e.type in _JOURNAL)
    for (name, based_on, time_us, _), pass_ in groupby(mine, key=_batch):
        tree = trees.setdefault(name, Tree(name))
        batch = list(pass_)
        if based_on:
            if based_on < reached:
                known = _Known(events, cluster, transport, clock)
            known.reach(based_on)
            reached = based_on
            found += _compared(known, tree, batch, time_us, based_on)
        else:
            for event in batch:
                _apply(tree, event)
    return found


def _entries(event: Event) -> tuple[Event, ...]:
    try:
        return entries(event)
    except EnvelopeError:
        return ()  # Every reader passes over it.


def _batch(event: Event) -> tuple[str, int, int, int]:
    """What the decisions of one pass have in common; 0 for what is none."""
    try:
        fact = _JOURNAL[event.type].read(event)
    except EnvelopeError:
        return event.key, 0, 0, event.sequence
    if _is_ours(fact):
        return event.key, fact.based_on, event.time_us, 0
    return event.key, 0, 0, event.sequence


def _is_ours(fact: Fact) -> bool:
    if isinstance(fact, AdmissionDecided):
        return fact.reason == "released"
    if isinstance(fact, AdmissionReleased):
        return any(one.reason in ("returning", "returned") for one in fact.releases)
    return False


def _compared(
    known: _Known, tree: Tree, batch: list[Event], time_us: int, based_on: int
) -> list[Difference]:
    found = []

    def tree_of(where: Place) -> Tree | None:
        node = tree.nodes.get(where.quota)
        return tree if node is not None and node.kind == where.kind else None

    while batch:
        draft = Draft(tree)
        queues = planned(known.lines, tree_of).queues.get(tree.name, {})
        decided(draft, known.lines, queues, time_us, based_on)
        should = [fact for fact, _ in draft.facts]
        # Two looks at one place of the history may fall into one moment.
        said, batch = batch[: max(len(should), 1)], batch[max(len(should), 1) :]
        for place, event in enumerate(said):
            fact = _JOURNAL[event.type].read(event)
            expected = should[place] if place < len(should) else None
            if fact != expected:
                found.append(Difference(event.sequence, fact, expected))
            _apply(tree, event)
    return found


def _apply(tree: Tree, event: Event) -> None:
    try:
        tree.apply(_JOURNAL[event.type].read(event), event.sequence, event.time_us)
    except (EnvelopeError, HistoryDivergedError):
        # Every reader passes over it.
        tree.skip(event.sequence)
