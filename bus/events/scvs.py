"""Facts about Scv objects: the GPU cards of a node as measured by Yoda's daemon.

Source: Yoda-Scheduler, "SCV" (core.run-linux.com/v1).
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from bus.events.vocabulary import Fact


class ScvCard(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One card. Memory in MB, clocks in MHz, power in W; the bandwidth is that of its bus."""

    is_healthy: bool = False
    total_memory: int = 0
    free_memory: int = 0
    clock: int = 0
    core: int = 0
    bandwidth: int = 0
    power: int = 0


class ScvObserved(Fact, frozen=True, kw_only=True):
    """An Scv object was observed. Key: its name, which is the node's."""

    wire_type: ClassVar[str] = "scv.observed"

    uid: str
    name: str
    resource_version: str
    #: As the object says; it need not be the number of ``cards``.
    card_number: int = 0
    total_memory: int = 0
    free_memory: int = 0
    cards: tuple[ScvCard, ...] = ()


class ScvVanished(Fact, frozen=True, kw_only=True):
    """An Scv object was deleted. Key: its name."""

    wire_type: ClassVar[str] = "scv.vanished"

    uid: str
    name: str
    resource_version: str
