"""The culling reactor: its parts, as the machine runs them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bus.events.clock import ClockTicked
from reactors.culling.decide import decide, managed, overtaken, rests
from reactors.culling.policy import CullingPolicy
from reactors.culling.settings import CullingSettings
from reactors.culling.state import NAME, CullingState
from reactors.engine.contract import Reactor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bus.metrics import Metric
    from reactors.engine.adapters import Adapters, EffectorTable
    from reactors.engine.replica import Replica


def effects(adapters: Adapters) -> EffectorTable:
    """The effects of culling."""
    # A question to the reactors needs no effects, and should not pay for the import.
    from reactors.culling.effects import effects

    return effects(adapters)


def figures(replica: Replica) -> Iterator[Metric]:
    """Its metrics for a scraper."""
    from reactors.culling.metrics import figures

    return figures(replica)


reactor = Reactor(
    name=NAME,
    version=2,
    policy=CullingPolicy,
    settings=CullingSettings,
    activity="culling",
    state=CullingState,
    triggers=(ClockTicked,),
    decide=decide,
    managed=managed,
    overtaken=overtaken,
    rests=rests,
    effects=effects,
    metrics=figures,
)
