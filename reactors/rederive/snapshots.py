"""Are the newest snapshots of a cluster what its history gives? All of it is folded again, and compared part by part.

What is in a snapshot of admission and is no fold of the history is left out: what reviews that were under way let pass below
owners and until when, what is counted as wanted between two ticks, and how far a journal was looked through.

Source: docs/architecture.md (snapshots).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from bus.clock import Clock
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


def compared(
    select: Select, reactors: Sequence[Reactor], cluster: str, transport: Transport, clock: Clock
) -> Compared:
    """The newest snapshot of each reader of ``cluster``, beside the fold of the history up to there."""

    def replica() -> Replica:
        return Replica(reactors, cluster)

    def readers() -> Readers:
        return Readers(transport, clock, cluster=cluster, source="rederive")

    until = last_archived(select)
    acting, admission = restored(select, replica, until), restored(select, readers, until)
    to = (acting.sequence, admission.sequence)
    acted, admitted = replica(), readers()
    for part in archived(select, cluster, None, until=max(to), apart=False) if any(to) else ():
        for event in part:
            if event.sequence <= to[0]:
                try:
                    acted.take(event)
                except EnvelopeError:
                    # As live readers do: the ledger counts what is parked.
                    continue
        if known := [event for event in part if event.sequence <= to[1]]:
            admitted.journals.take(known)
            # Nobody works these off here.
            admitted.view.unmark()
    found = []
    if to[0]:
        acted.sequence = to[0]
        found.append(_compared(acting.name, to[0], _acting(acting), _acting(acted)))
    if to[1]:
        found.append(_compared(admission.name, to[1], _admission(admission), _admission(admitted)))
    same = sum(not one.parts for one in found)
    return Compared(same, tuple(one for one in found if one.parts))


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
