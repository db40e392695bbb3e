"""Requests of a pod to GPU nodes, as packing policies read them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import msgspec

from bus.events.constraints import Affinity, NodeAffinity, NodeSelector, PodConstraints
from projections.cluster import Pod
from reactors.scheduling.columns import cards
from reactors.scheduling.columns.cards import WHOLE

#: (cpu, thousandths of each card, cards, selection of nodes): the key of typical pods.
Kind: TypeAlias = tuple[int, int, int, tuple[str, ...]]

#: Part of all pods covered by the typical ones.
COVERED = 0.95

_encode = msgspec.json.Encoder(order="sorted").encode
_decode = msgspec.json.Decoder(tuple[dict[str, str], NodeSelector | None]).decode


class Shape(msgspec.Struct, frozen=True):
    """The request of a pod: ``milli`` of each of ``cards`` cards."""

    cpu_milli: int
    cards: int = 0
    milli: int = 0

    @property
    def is_share(self) -> bool:
        """Whether it takes part of one card."""
        return self.cards == 1 and self.milli < WHOLE

    @property
    def total(self) -> int:
        """Thousandths of cards, in all."""
        return self.cards * self.milli


def shape_of(pod: Pod, memory: int = 0) -> Shape:
    """The request of a pod, of cards of ``memory`` bytes for a request in bytes."""
    count, milli = cards.wanted(pod, memory)
    return Shape(pod.demand.get("requests.cpu", 0), count, milli)


def selection_of(pod: Pod) -> str:
    """A pod's terms for nodes, in one form; "" = any node."""
    found = pod.constraints
    if found is None:
        return ""
    affinity = found.affinity.node_affinity if found.affinity else None
    required = affinity.required if affinity else None
    if not found.node_selector and required is None:
        return ""
    return _encode((found.node_selector, required)).decode()


def selecting(selection: str) -> PodConstraints:
    """The terms from a text of :func:`selection_of`."""
    selector, required = _decode(selection)
    return PodConstraints(node_selector=selector, affinity=Affinity(NodeAffinity(required)))


def kind_of(pod: Pod) -> Kind:
    """The kind of a pod."""
    shape = shape_of(pod)
    selection = selection_of(pod) if shape.cards else ""
    return shape.cpu_milli, shape.milli, shape.cards, (selection,) if selection else ()


def typical_kinds(counts: Mapping[Kind, int]) -> list[tuple[Kind, float]]:
    """The most frequent kinds, together 95 % of the pods, with their parts; by falling count, then by falling kind."""
    total, covered, found = sum(counts.values()), 0, []
    for count, kind in sorted(((count, kind) for kind, count in counts.items()), reverse=True):
        if covered >= COVERED * total:
            break
        covered += count
        found.append((kind, count))
    # A fraction of a fraction, in this order: the published scores depend on the last bit.
    return [(kind, count / total / (covered / total)) for kind, count in found]
