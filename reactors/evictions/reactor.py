"""The evictions reactor: its parts, as the machine runs them."""

from __future__ import annotations

from bus.events.clock import ClockTicked
from reactors.engine.contract import Reactor
from reactors.evictions import NAME
from reactors.evictions.decide import decide, managed, overtaken, rests
from reactors.evictions.effects import effects
from reactors.evictions.figures import figures
from reactors.evictions.policy import EvictionPolicy
from reactors.evictions.settings import EvictionSettings
from reactors.evictions.view import EvictionView

reactor = Reactor(
    name=NAME,
    version=7,
    policy=EvictionPolicy,
    settings=EvictionSettings,
    activity="giving back",
    state=EvictionView,
    triggers=(ClockTicked,),
    decide=decide,
    managed=managed,
    overtaken=overtaken,
    rests=rests,
    effects=effects,
    metrics=figures,
)
