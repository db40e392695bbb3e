"""The evictions reactor: its parts, as the machine runs them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bus.events.clock import ClockTicked
from bus.events.decisions import Evict
from reactors.engine.contract import Reactor
from reactors.evictions import NAME
from reactors.evictions.decide import decide, managed, overtaken, rests
from reactors.evictions.metrics import figures
from reactors.evictions.policy import EvictionPolicy
from reactors.evictions.settings import EvictionSettings
from reactors.evictions.state import EvictionState

if TYPE_CHECKING:
    from reactors.engine.adapters import Adapters, Effects


def effects(adapters: Adapters) -> Effects:
    """The effector of evictions."""
    # A question to the reactors needs nobody who acts, and should not pay for the import.
    from reactors.effectors.evict import EvictEffector
    from reactors.engine.adapters import Effects

    return Effects({Evict.wire_type: EvictEffector(adapters.cluster)})


reactor = Reactor(
    name=NAME,
    version=7,
    policy=EvictionPolicy,
    settings=EvictionSettings,
    activity="giving back",
    state=EvictionState,
    triggers=(ClockTicked,),
    decide=decide,
    managed=managed,
    overtaken=overtaken,
    rests=rests,
    effects=effects,
    metrics=figures,
)
