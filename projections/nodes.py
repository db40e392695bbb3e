"""Nodes over time: the GPU model of each, and its resources.

Source: docs/accounting.md (GPU model: first seen holds for all time before, a later change cuts).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import sqlalchemy as sa

from bus.amounts import NANO, observed_quantity
from bus.envelope import Event
from bus.errors import QuantityError
from bus.events.nodes import NodeObserved, NodeVanished
from bus.kube.watch.labels import LabelPolicy
from bus.sources import card_texts
from projections import timelines
from projections.devices.partitions import MIG_RESOURCE, mig_profile
from projections.devices.shared_cards import (
    GKE_PARTITION,
    KOORDINATOR_CARD,
    KOORDINATOR_MEMORY,
    PRODUCT,
)
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

#: Instead of a label: the labels of the model, as JSON, if there are several.
_MODELS = "bursar.io/model-labels"

#: Labels of a model, by falling precedence.
_MODEL_LABELS = LabelPolicy().model_labels
_decode = msgspec.json.Decoder(dict[str, str]).decode
_MIB = 2**20 * NANO


class NodeHistory(msgspec.Struct, frozen=True):
    """A node by name, over all its lives. ``gone`` is its newest delete (resourceVersion, microseconds)."""

    cluster: str
    name: str
    history: tuple[tuple[str, int, Value], ...] = ()
    gone: tuple[str, int] | None = None
    #: Its observations of divided and shared cards, texts as JSON.
    cards: tuple[tuple[str, int, str], ...] = ()
    sequence: int = 0

    def models(self) -> list[tuple[int, str | None]]:
        """(first second, GPU model), oldest first.

        An absent label keeps its last value, as long as the node has its uid.
        """
        texts = self._texts()
        points: list[timelines.Point] = []
        uid, held, labels = "", None, dict[str, str]()
        for version, time_us, value in self.history:
            if value[0] != uid:
                uid, held, labels = value[0], None, {}
            model, reported = value[1], texts.get((version, time_us), "")
            now = _decode(_decode(reported).get(_MODELS, "{}")) if _MODELS in reported else {}
            if model is not None and not _is_stand_in(model, held, now, labels):
                labels = {**labels, **now} if model == held else now
                held = model
            points.append((version, time_us, held))
        return timelines.changes(tuple(points))

    def sharing(self) -> list[tuple[int, str]]:
        """(first second, report about shared cards as JSON), oldest first; "" without a report.

        An absent label or annotation keeps its last value, as long as the node has its uid.
        """
        return timelines.changes(self.sharing_points()) if self.cards else []

    def sharing_points(self) -> timelines.History:
        """The report about shared cards in each observation, by the same rule."""
        texts = self._texts()
        points: list[timelines.Point] = []
        uid, last, shown = "", "", ""
        for version, time_us, value in self.history:
            if value[0] != uid:
                uid, last, shown = value[0], "", ""
            reported = texts.get((version, time_us), "")
            # Most observations repeat the one before.
            if reported and reported != last:
                last, shown = reported, _sharing(shown, reported)
            points.append((version, time_us, shown))
        return tuple(points)

    def _texts(self) -> dict[tuple[str, int], str]:
        return {(version, time_us): text for version, time_us, text in self.cards}


def keys(fact: NodeObserved | NodeVanished, event: Event) -> tuple[Key]:
    """One node: (cluster, name)."""
    return ((event.cluster, fact.name),)


def fold(row: NodeHistory | None, fact: NodeObserved | NodeVanished, event: Event) -> NodeHistory:
    """The node with one more observation. Pods of a deleted node hold until they end themselves."""
    row = row or NodeHistory(event.cluster, fact.name)
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
    return NodeHistory(row.cluster, row.name, history, gone, cards, event.sequence)


def sharing_of(fact: NodeObserved, before: str) -> str:
    """A node's report about shared cards, as JSON; ``before``: its earlier report under the same uid."""
    return _sharing(before, reported) if (reported := _cards(fact)) else before


def _sharing(before: str, reported: str) -> str:
    held = {**(_decode(before) if before else {}), **_decode(reported)}
    held.pop(_MODELS, None)
    return _encode(held) if held else ""


def _cards(fact: NodeObserved) -> str:
    labels = {**fact.labels, **fact.further_labels}
    texts = {**fact.card_texts, **card_texts.of_labels(labels)}
    has_partitions = (
        GKE_PARTITION in labels
        or mig_profile(fact.model or "")
        or any(one.startswith(MIG_RESOURCE) for one in fact.allocatable)
    )
    if product := labels.get(PRODUCT) or (fact.model if has_partitions else None):
        texts[PRODUCT] = product
    if mib := _card_memory(fact.allocatable):
        texts[KOORDINATOR_CARD] = str(mib)
    named = {name: labels[name] for name in _MODEL_LABELS if labels.get(name)}
    if len(named) > 1 and fact.model in named.values():
        texts[_MODELS] = _encode(named)
    return _encode(texts) if texts else ""


def _encode(texts: dict[str, str]) -> str:
    return msgspec.json.encode(texts, order="sorted").decode()


def _card_memory(allocatable: dict[str, str]) -> int:
    """MiB of one card on a node counted by Koordinator; 0 if the number of cards or the memory is missing."""
    for name in KOORDINATOR_MEMORY:
        prefix = name.partition("/")[0]
        for percent in ("gpu", "gpu-core", "gpu-memory-ratio"):
            hundredths = _amount(allocatable.get(f"{prefix}/{percent}"), NANO)
            if hundredths and (memory := _amount(allocatable.get(name), _MIB)):
                return memory * 100 // hundredths
    return 0


def _amount(text: str | None, unit: int) -> int:
    try:
        return observed_quantity(text) // unit if text else 0
    except QuantityError:
        return 0


def _is_stand_in(
    model: str, held: str | None, now: Mapping[str, str], before: Mapping[str, str]
) -> bool:
    """Whether ``model`` comes from a label of lower precedence than ``held``'s before, and that label is absent now."""
    if held is None or model == held:
        return False
    first = next((name for name in _MODEL_LABELS if before.get(name) == held), None)
    return (
        first is not None
        and first not in now
        and any(value == model for name, value in before.items() if name != first)
    )


def _shown(row: NodeHistory) -> dict[str, Any]:
    latest = row.history[-1][2] if row.history else (None, None, None, 0, 0)
    uid, _, allocatable, ready, unschedulable = latest
    models = row.models()
    return {
        "uid": uid,
        "model": models[-1][1] if models else None,
        "allocatable": allocatable,
        "ready": ready,
        "unschedulable": unschedulable,
        "vanished": int(timelines.is_gone(row.history, row.gone)),
    }


codec = Codec(
    NodeHistory,
    nodes,
    names={"name": "node"},
    packed={"state": ("history", "gone", "cards")},
    shown=_shown,
)

projection = Projection(
    name="nodes",
    version=3,
    table=nodes,
    facts=(NodeObserved, NodeVanished),
    keys=keys,
    fold=fold,
    codec=codec,
)
