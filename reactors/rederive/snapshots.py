"""Verification of snapshots: the whole history is folded again, and the newest snapshots are compared with it part by part.

A verification of decisions folds the same history. Its replica is compared after the snapshot's event, if it has read
all of its own decisions by then, as the snapshot's process had. Otherwise the history is folded once more for this alone.

Some parts of admission's snapshot are no fold of the history and are left out: objects admitted below owners by unfinished
reviews and their deadlines, the demand counted between two ticks, and the progress in a journal.

Source: docs/architecture.md (snapshots).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from bus.clock import Clock
from bus.envelope import Event
from bus.errors import EnvelopeError
from bus.transport import Transport
from projections.quota_trees.queries import Select, archived
from reactors.admission.state.state import AdmissionState
from reactors.engine.contract import Reactor
from reactors.engine.journals import Journals
from reactors.engine.replica import Replica
from reactors.engine.snapshots import last_archived, restored
from reactors.readers import Readers


class SnapshotDifference(msgspec.Struct, frozen=True):
    """A snapshot that differs from the history: its reader, its event, and the different parts."""

    name: str
    sequence: int
    parts: tuple[str, ...]


class Compared(msgspec.Struct, frozen=True):
    """The number of correct snapshots, and the wrong ones."""

    same: int
    differences: tuple[SnapshotDifference, ...]


class SnapshotComparison:
    """The newest snapshot of each reader of ``cluster``, compared with the fold of the given history.

    ``is_beside``: a replica is folded elsewhere, and given to :meth:`known`.
    """

    def __init__(
        self, select: Select, reactors: Sequence[Reactor], cluster: str, transport: Transport, clock: Clock,
        *, is_beside: bool = False,
    ) -> None:  # fmt: skip
        def replica() -> Replica:
            return Replica(reactors, cluster)

        def readers() -> Readers:
            return Readers(transport, clock, cluster=cluster, source="rederive")

        last = last_archived(select)
        self._replica, self._readers = (
            restored(select, replica, last),
            restored(select, readers, last),
        )
        self._folded, self._read = replica(), readers()
        self._select, self._is_beside = select, is_beside
        #: The result for the snapshot of reactors, once it is known.
        self._acting: SnapshotDifference | None = None
        #: Events after it do not matter for the snapshots.
        self.until = max(self._replica.sequence, self._readers.sequence)

    def apply(self, event: Event) -> None:
        """The next event of the history, from the first one on."""
        if event.sequence <= self._readers.sequence:
            self._read.journals.apply([event])
            # Marks are not worked off here.
            self._read.view.unmark()
        if not self._is_beside:
            self._fold(event)

    def known(self, replica: Replica, before: int) -> None:
        """Compare a replica after every event before the sequence ``before``; it goes on afterwards."""
        at = self._replica.sequence
        if at and before > at and self._acting is None and self._is_beside:
            if replica.is_pure:
                self._acting = self._difference(replica)
            else:
                self._fold_all()

    def end(self) -> Compared:
        """The findings, after all events."""
        found = []
        if self._replica.sequence:
            found.append(self._acting or self._difference(self._folded))
        if at := self._readers.sequence:
            held, folded = _admission(self._readers), _admission(self._read)
            found.append(_compared(self._readers.name, at, held, folded))
        same = sum(not one.parts for one in found)
        return Compared(same, tuple(one for one in found if one.parts))

    def _fold(self, event: Event) -> None:
        if event.sequence <= self._replica.sequence:
            with suppress(EnvelopeError):
                # As live readers do: the ledger counts parked events.
                self._folded.apply(event)

    def _fold_all(self) -> None:
        at, cluster = self._replica.sequence, self._folded.cluster
        for part in archived(self._select, cluster, None, until=at, apart=False):
            for event in part:
                self._fold(event)
        self._acting = self._difference(self._folded)

    def _difference(self, folded: Replica) -> SnapshotDifference:
        at = self._replica.sequence
        held, ours = _acting(self._replica, at), _acting(folded, at)
        return _compared(self._replica.name, at, held, ours)


def compared(
    select: Select, reactors: Sequence[Reactor], cluster: str, transport: Transport, clock: Clock
) -> Compared:
    """The newest snapshot of each reader of ``cluster``, beside the fold of the archive up to there."""
    comparison = SnapshotComparison(select, reactors, cluster, transport, clock)
    if comparison.until:
        for part in archived(select, cluster, None, until=comparison.until, apart=False):
            for event in part:
                comparison.apply(event)
    return comparison.end()


def _compared(
    name: str, sequence: int, held: Iterator[tuple[str, Any]], folded: Iterator[tuple[str, Any]]
) -> SnapshotDifference:
    ours = dict(folded)
    wrong = [part for part, value in held if ours.pop(part, None) != value]
    return SnapshotDifference(name, sequence, tuple(sorted([*wrong, *ours])))


def _acting(replica: Replica, at: int) -> Iterator[tuple[str, Any]]:
    """The reactors' state after the event ``at``, by part; that may be one of another cluster."""
    saved = msgspec.structs.replace(replica.saved(), sequence=at)
    for name in saved.__struct_fields__:
        if name != "own":
            yield name, getattr(saved, name)
    for name, state in replica.states.items():
        yield name, state.saved()


def _admission(readers: Readers) -> Iterator[tuple[str, Any]]:
    """The state of admission and the queues, by part."""
    yield from charged(readers.journals, readers.view)
    yield "queues", readers.lines.saved()


def charged(journals: Journals, view: AdmissionState) -> Iterator[tuple[str, Any]]:
    """The charges by holder, and the observed cluster, by part."""
    yield "places", journals.places
    for name, tree in journals.trees.items():
        # A tree that was read but never written to is in no history.
        if tree.number:
            yield f"tree {name}", (tree.number, tree.nodes, tree.meters, tree.total)
    yield "cluster_state", view.state.saved()
    saved = view.saved()
    yield "quotas", (saved.quotas, saved.elastics, saved._rules)
