"""The scheduling reactor: its parts for the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bus.events.clock import ClockTicked
from bus.events.decisions import SchedulingPassed
from projections.cluster import POD
from reactors.engine.contract import Reactor
from reactors.scheduling import NAME, RULES
from reactors.scheduling.evicting import decide, managed, overtaken
from reactors.scheduling.settings import SchedulingPolicy, SchedulingSettings
from reactors.scheduling.state import SchedulingState

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bus.metrics import Metric
    from reactors.engine.adapters import Adapters, EffectorTable
    from reactors.engine.contract import Concluded
    from reactors.engine.policies import Current
    from reactors.engine.replica import Replica


def concluded(state: SchedulingState, current: Current) -> Sequence[Concluded]:
    """See :func:`reactors.scheduling.decide.concluded`; nothing without scheduling."""
    if state.scheduler is None:
        return ()
    from reactors.scheduling.decide import concluded as made

    return made(state, state.scheduler, current)


def effects(adapters: Adapters) -> EffectorTable:
    """The binder, and the writer of notices on waiting pods."""
    # Only a process with effects should pay for the import.
    from reactors.scheduling.effects import effects as made

    return made(adapters)


def figures(replica: Replica) -> Iterator[Metric]:
    """Its metrics for a scraper."""
    from reactors.scheduling.metrics import figures

    return figures(replica)


reactor = Reactor(
    name=NAME,
    version=RULES,
    policy=SchedulingPolicy,
    settings=SchedulingSettings,
    activity="scheduling",
    state=SchedulingState,
    triggers=(ClockTicked, SchedulingPassed),
    decide=decide,
    managed=managed,
    overtaken=overtaken,
    concludes=concluded,
    effects=effects,
    metrics=figures,
    concludes_as="scheduling.passed",
    hears_at_once=frozenset({POD}),
)
