"""The row of an Scv object: the GPU cards of a node as Yoda's daemon measures them. Pure."""

from __future__ import annotations

from sys import intern
from typing import ClassVar

import msgspec

from bus.events.scvs import ScvCard, ScvObserved


class Scv(msgspec.Struct, gc=False):
    """The cards of a node as Yoda's daemon measures them; it has the node's name."""

    kind: ClassVar[str] = "Scv"
    namespace: ClassVar[str] = ""

    uid: str
    name: str
    version: str
    seen_us: int
    card_number: int
    total_memory: int
    free_memory: int
    cards: tuple[ScvCard, ...]
    last_us: int = 0
    listed_us: int = 0


def scv(fact: ScvObserved, time_us: int, known: Scv | None) -> Scv:
    """The row of an Scv object."""
    return Scv(
        fact.uid, intern(fact.name), fact.resource_version, time_us, fact.card_number, fact.total_memory,
        fact.free_memory, fact.cards, time_us,
    )  # fmt: skip
