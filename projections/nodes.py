"""Which GPU does a node carry, what does it offer, and since when?

Source: docs/accounting.md (GPU model: first seen holds for all time before, a later change cuts).
"""

from __future__ import annotations

from typing import Any

import msgspec
import sqlalchemy as sa

from bus.envelope import Event
from bus.events.nodes import NodeObserved, NodeVanished
from projections import timelines
from projections.engine.codec import Codec
from projections.engine.contract import Key, Projection, row_table

nodes = row_table(
    "nodes",
    sa.Column("cluster", sa.Text, primary_key=True),
    sa.Column("node", sa.Text, primary_key=True),
    sa.Column("uid", sa.Text),
    sa.Column("model", sa.Text),
    sa.Column("allocatable", sa.Text),
    sa.Column("ready", sa.Integer, nullable=False),
    sa.Column("unschedulable", sa.Integer, nullable=False),
    sa.Column("vanished", sa.Integer, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
)

#: uid, model, allocatable (JSON, sorted), ready, unschedulable
Value = tuple[str, str | None, str, int, int]


class Node(msgspec.Struct, frozen=True):
    """A node by name, over all its lives. ``gone`` is its newest delete (resourceVersion, microseconds)."""

    cluster: str
    name: str
    history: tuple[tuple[str, int, Value], ...] = ()
    gone: tuple[str, int] | None = None
    sequence: int = 0

    def models(self) -> list[tuple[int, str | None]]:
        """(second from which it holds, GPU model), oldest first."""
        return timelines.distinct(
            (second, value[1]) for second, value in timelines.changes(self.history)
        )


def keys(fact: NodeObserved | NodeVanished, event: Event) -> tuple[Key]:
    """One node: (cluster, name)."""
    return ((event.cluster, fact.name),)


def fold(row: Node | None, fact: NodeObserved | NodeVanished, event: Event) -> Node:
    """The node with one more observation. Pods of a deleted node hold until they end themselves."""
    row = row or Node(event.cluster, fact.name)
    history, gone = row.history, row.gone
    if isinstance(fact, NodeVanished):
        gone = timelines.later(gone, (fact.resource_version, event.time_us))
    else:
        allocatable = msgspec.json.encode(fact.allocatable, order="sorted").decode()
        value = (fact.uid, fact.model, allocatable, int(fact.ready), int(fact.unschedulable))
        history = timelines.added(history, fact.resource_version, event.time_us, value)
    if history == row.history and gone == row.gone:
        return row
    return Node(row.cluster, row.name, history, gone, event.sequence)


def _shown(row: Node) -> dict[str, Any]:
    latest = row.history[-1][2] if row.history else (None, None, None, 0, 0)
    uid, model, allocatable, ready, unschedulable = latest
    return {
        "uid": uid,
        "model": model,
        "allocatable": allocatable,
        "ready": ready,
        "unschedulable": unschedulable,
        "vanished": int(timelines.is_gone(row.history, row.gone)),
    }


codec = Codec(
    Node, nodes, names={"name": "node"}, packed={"state": ("history", "gone")}, shown=_shown
)

projection = Projection(
    name="nodes",
    version=1,
    table=nodes,
    facts=(NodeObserved, NodeVanished),
    keys=keys,
    fold=fold,
    codec=codec,
)
