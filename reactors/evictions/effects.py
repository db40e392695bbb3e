"""Who evicts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bus.events.decisions import Evict

if TYPE_CHECKING:
    from reactors.engine.adapters import Adapters, Effects


def effects(adapters: Adapters) -> Effects:
    """The effector of evictions."""
    # A question to the reactors needs nobody who acts, and should not pay for the import.
    from reactors.effectors.evict import EvictEffector
    from reactors.engine.adapters import Effects

    return Effects({Evict.wire_type: EvictEffector(adapters.cluster)})
