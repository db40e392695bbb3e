"""Which workload does an object belong to: the top of the chain of controllers, as far as it was seen?

Source: ``accounting.md`` section 4 (workload), ``reliability.md`` A26 (depth at most 8, a cycle is cut).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import sqlalchemy as sa

from bus.envelope import Event
from bus.events.pods import Owner
from bus.events.workloads import WorkloadObserved, WorkloadVanished
from projections import histories
from projections.engine.contract import Key, Projection, row_table

#: Longest chain of controllers that is followed.
DEPTH = 8

workloads = row_table(
    "workloads",
    sa.Column("uid", sa.Text, primary_key=True),
    sa.Column("cluster", sa.Text, nullable=False),
    sa.Column("namespace", sa.Text, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("owner_uid", sa.Text),
    sa.Column("vanished", sa.Integer, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Index("workloads_by_owner", "owner_uid"),
)


class Workload(msgspec.Struct, frozen=True):
    """One object of a chain, by uid. History values are its controller, or None."""

    cluster: str
    uid: str
    namespace: str
    kind: str
    name: str
    history: tuple[tuple[str, int, Owner | None], ...] = ()
    gone: tuple[str, int] | None = None
    sequence: int = 0

    @property
    def owner(self) -> Owner | None:
        """Its controller by its newest observation."""
        return self.history[-1][2] if self.history else None


def keys(fact: WorkloadObserved | WorkloadVanished, event: Event) -> tuple[Key]:
    """One object: (uid,)."""
    return ((fact.uid,),)


def fold(row: Workload | None, fact: WorkloadObserved | WorkloadVanished, event: Event) -> Workload:
    """The object with one more observation."""
    row = row or Workload(event.cluster, fact.uid, fact.namespace, fact.kind, fact.name)
    history, gone = row.history, row.gone
    if isinstance(fact, WorkloadVanished):
        gone = histories.later(gone, (fact.resource_version, event.time_us))
    else:
        history = histories.added(history, fact.resource_version, event.time_us, fact.owner)
    if history == row.history and gone == row.gone:
        return row
    return msgspec.structs.replace(row, history=history, gone=gone, sequence=event.sequence)


def top(owner: Owner | None, find: Callable[[str], Workload | None]) -> Owner | None:
    """The end of the chain that starts at ``owner``; None for an object without a controller.

    An object that was never seen ends the chain: its reference still names it. A cycle ends where it closes.
    """
    seen: set[str] = set()
    while owner is not None and owner.uid not in seen and len(seen) < DEPTH:
        seen.add(owner.uid)
        row = find(owner.uid)
        above = row.owner if row is not None else None
        if above is None:
            return owner
        owner = above
    return owner


_State = tuple[tuple[tuple[str, int, Owner | None], ...], tuple[str, int] | None]
_decoder = msgspec.json.Decoder(_State)


def to_columns(row: Workload) -> tuple[Any, ...]:
    """The row as the table's columns."""
    owner = row.owner
    return (
        row.uid,
        row.cluster,
        row.namespace,
        row.kind,
        row.name,
        owner.uid if owner else None,
        int(histories.is_gone(row.history, row.gone)),
        msgspec.json.encode((row.history, row.gone)).decode(),
        row.sequence,
    )


def from_columns(columns: tuple[Any, ...]) -> Workload:
    """The row that was stored."""
    history, gone = _decoder.decode(columns[7])
    return Workload(
        columns[1], columns[0], columns[2], columns[3], columns[4], history, gone, columns[8]
    )


projection = Projection(
    name="workloads",
    version=1,
    table=workloads,
    facts=(WorkloadObserved, WorkloadVanished),
    keys=keys,
    fold=fold,
    to_columns=to_columns,
    from_columns=from_columns,
)
