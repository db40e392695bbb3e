"""The jobs reactor: its parts, as the machine runs them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bus.events.clock import ClockTicked
from bus.events.pods import PodObserved, PodVanished
from bus.events.workloads import WorkloadObserved
from reactors.engine.contract import Reactor
from reactors.jobs import NAME
from reactors.jobs.decide import decide, is_concerned, managed
from reactors.jobs.settings import JobsPolicy, JobsSettings
from reactors.jobs.state import JobsState

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bus.metrics import Metric
    from reactors.engine.adapters import Adapters, Effects
    from reactors.engine.replica import Replica


def effects(adapters: Adapters) -> Effects:
    """Nobody acts: there are only shadows."""
    # A question to the reactors needs nobody who acts, and should not pay for the import.
    from reactors.engine.adapters import Effects

    return Effects()


def figures(replica: Replica) -> Iterator[Metric]:
    """What a scraper sees of it."""
    from reactors.jobs.metrics import figures

    return figures(replica)


reactor = Reactor(
    name=NAME,
    version=1,
    policy=JobsPolicy,
    settings=JobsSettings,
    activity="running jobs",
    state=JobsState,
    triggers=(ClockTicked, PodObserved, PodVanished, WorkloadObserved),
    is_concerned=is_concerned,
    decide=decide,
    managed=managed,
    effects=effects,
    metrics=figures,
)
