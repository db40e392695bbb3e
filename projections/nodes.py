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
from projections.devices.shared_cards import NODE_LABELS
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
    #: Of its observations those that say how its cards are shared, texts as JSON.
    cards: tuple[tuple[str, int, str], ...] = ()
    sequence: int = 0

    def models(self) -> list[tuple[int, str | None]]:
        """(second from which it holds, GPU model), oldest first."""
        return timelines.distinct(
            (second, value[1]) for second, value in timelines.changes(self.history)
        )

    def sharing(self) -> list[tuple[int, str]]:
        """(second from which it holds, what it says of shared cards as JSON), oldest first; "" where it says nothing."""
        if not self.cards:
            return []
        texts = {(version, time_us): text for version, time_us, text in self.cards}
        points = tuple(
            (version, time_us, texts.get((version, time_us), ""))
            for version, time_us, _ in self.history
        )
        return timelines.changes(points)


def keys(fact: NodeObserved | NodeVanished, event: Event) -> tuple[Key]:
    """One node: (cluster, name)."""
    return ((event.cluster, fact.name),)


def fold(row: Node | None, fact: NodeObserved | NodeVanished, event: Event) -> Node:
    """The node with one more observation. Pods of a deleted node hold until they end themselves."""
    row = row or Node(event.cluster, fact.name)
    history, gone, cards = row.history, row.gone, row.cards
    if isinstance(fact, NodeVanished):
        gone = timelines.later(gone, (fact.resource_version, event.time_us))
    else:
        allocatable = msgspec.json.encode(fact.allocatable, order="sorted").decode()
        value = (fact.uid, fact.model, allocatable, int(fact.ready), int(fact.unschedulable))
        history = timelines.added(history, fact.resource_version, event.time_us, value)
        if observed := _cards(fact):
            cards = timelines.added(cards, fact.resource_version, event.time_us, observed)
    if history == row.history and gone == row.gone and cards == row.cards:
        return row
    return Node(row.cluster, row.name, history, gone, cards, event.sequence)


def _cards(fact: NodeObserved) -> str:
    labels = {**fact.labels, **fact.further_labels}
    texts = dict(fact.card_texts)
    texts |= {name: labels[name] for name in NODE_LABELS if name in labels}
    # The memory of a card alone says of nobody that he shares one.
    return msgspec.json.encode(texts, order="sorted").decode() if texts else ""


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
    Node,
    nodes,
    names={"name": "node"},
    packed={"state": ("history", "gone", "cards")},
    shown=_shown,
)

projection = Projection(
    name="nodes",
    version=2,
    table=nodes,
    facts=(NodeObserved, NodeVanished),
    keys=keys,
    fold=fold,
    codec=codec,
)
