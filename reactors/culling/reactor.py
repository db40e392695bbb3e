"""The culling reactor: its parts, as the machine runs them."""

from __future__ import annotations

from bus.events.clock import ClockTicked
from reactors.culling.decide import decide, managed, overtaken, rests
from reactors.culling.effects import effects
from reactors.culling.metrics import figures
from reactors.culling.policy import CullingPolicy
from reactors.culling.settings import CullingSettings
from reactors.culling.state import NAME, CullingState
from reactors.engine.contract import Reactor

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
