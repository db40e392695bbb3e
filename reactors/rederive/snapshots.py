"""Are the newest snapshots of a cluster what its history gives? All of it is folded again, and compared part by part.

What is in a snapshot of admission and is no fold of the history is left out: what reviews that were under way let pass below
owners and until when, what is counted as wanted between two ticks, and how far a journal was looked through.

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
from reactors.admission.state import AdmissionState
from reactors.engine.contract import Reactor
from reactors.engine.journals import Journals
from reactors.engine.replica import Replica
from reactors.engine.snapshots import last_archived, restored
from reactors.readers import Readers


class Difference(msgspec.Struct, frozen=True):
    """A snapshot that is not what the history gives: whose, after which event, and the parts that differ."""

    name: str
    sequence: int
    parts: tuple[str, ...]


class Compared(msgspec.Struct, frozen=True):
    """How many snapshots are what the history gives, and those that are not."""

    same: int
    differences: tuple[Difference, ...]


class Comparison:
    """The newest snapshot of each reader of ``cluster``, beside the fold of the history that is given to it."""

    def __init__(
        self, select: Select, reactors: Sequence[Reactor], cluster: str, transport: Transport, clock: Clock
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
        #: The events behind it say nothing of the snapshots.
        self.until = max(self._replica.sequence, self._readers.sequence)

    def take(self, event: Event) -> None:
        """The next event of the history, from the first one on."""
        if event.sequence <= self._readers.sequence:
            self._read.journals.take([event])
            # Nobody works these off here.
            self._read.view.unmark()
        if event.sequence <= self._replica.sequence:
            with suppress(EnvelopeError):
                # As live readers do: the ledger counts what is parked.
                self._folded.take(event)

    def end(self) -> Compared:
        """What was found, when all was taken."""
        found = []
        if at := self._replica.sequence:
            self._folded.sequence = at
            held, folded = _acting(self._replica), _acting(self._folded)
            found.append(_compared(self._replica.name, at, held, folded))
        if at := self._readers.sequence:
            held, folded = _admission(self._readers), _admission(self._read)
            found.append(_compared(self._readers.name, at, held, folded))
        same = sum(not one.parts for one in found)
        return Compared(same, tuple(one for one in found if one.parts))


def compared(
    select: Select, reactors: Sequence[Reactor], cluster: str, transport: Transport, clock: Clock
) -> Compared:
    """The newest snapshot of each reader of ``cluster``, beside the fold of the archive up to there."""
    comparison = Comparison(select, reactors, cluster, transport, clock)
    if comparison.until:
        for part in archived(select, cluster, None, until=comparison.until, apart=False):
            for event in part:
                comparison.take(event)
    return comparison.end()


def _compared(
    name: str, sequence: int, held: Iterator[tuple[str, Any]], folded: Iterator[tuple[str, Any]]
) -> Difference:
    ours = dict(folded)
    wrong = [part for part, value in held if ours.pop(part, None) != value]
    return Difference(name, sequence, tuple(sorted([*wrong, *ours])))


def _acting(replica: Replica) -> Iterator[tuple[str, Any]]:
    """What reactors know, by part."""
    saved = replica.saved()
    for name in saved.__struct_fields__:
        if name != "own":
            yield name, getattr(saved, name)
    for name, state in replica.states.items():
        yield name, state.saved()


def _admission(readers: Readers) -> Iterator[tuple[str, Any]]:
    """What admission and the queues know, by part."""
    yield from charged(readers.journals, readers.view)
    yield "queues", readers.lines.saved()


def charged(journals: Journals, view: AdmissionState) -> Iterator[tuple[str, Any]]:
    """What is charged to whom, and what was seen of the cluster, by part."""
    yield "places", journals.places
    for name, tree in journals.trees.items():
        # One that somebody asked for and nobody wrote to is in no history.
        if tree.number:
            yield f"tree {name}", (tree.number, tree.nodes, tree.meters, tree.total)
    yield "cluster_state", view.state.saved()
    saved = view.saved()
    yield "quotas", (saved.quotas, saved.elastics, saved._rules)
