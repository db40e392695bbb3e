"""The jobs reactor: its parts, as the machine runs them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bus.events.clock import ClockTicked
from bus.events.pods import PodGroupObserved, PodGroupVanished, PodObserved, PodVanished
from bus.events.services import ServiceObserved, ServiceVanished
from bus.events.workloads import WorkloadObserved
from projections.cluster import Pod, Service
from reactors.engine.contract import Reactor
from reactors.jobs import NAME
from reactors.jobs.decide import decide, is_concerned, managed, overtaken
from reactors.jobs.settings import JobsPolicy, JobsSettings
from reactors.jobs.shape import GROUPS, KINDS
from reactors.jobs.state import JobsState

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from bus.metrics import Metric
    from reactors.engine.adapters import Adapters, EffectorTable
    from reactors.engine.replica import Replica


def effects(adapters: Adapters) -> EffectorTable:
    """The effector of the steps of jobs."""
    # A question to the reactors needs no effects, and should not pay for the import.
    from reactors.engine.adapters import EffectorTable
    from reactors.jobs.effectors.keep import PodGroupEffector
    from reactors.jobs.effectors.run import JobEffector

    jobs, groups = JobEffector(adapters.cluster), PodGroupEffector(adapters.cluster)
    return EffectorTable({verb.wire_type: one for one in (jobs, groups) for verb in one.verbs})


def figures(replica: Replica) -> Iterator[Metric]:
    """Its metrics for a scraper."""
    from reactors.jobs.metrics import figures

    return figures(replica)


def run_by(replica: Replica) -> Mapping[str, int]:
    """The number of jobs by runner."""
    from reactors.jobs.metrics import runners

    return runners(replica)


reactor = Reactor(
    name=NAME,
    version=10,
    policy=JobsPolicy,
    settings=JobsSettings,
    activity="running jobs",
    state=JobsState,
    triggers=(
        ClockTicked,
        PodObserved,
        PodVanished,
        WorkloadObserved,
        ServiceObserved,
        ServiceVanished,
        PodGroupObserved,
        PodGroupVanished,
    ),
    is_concerned=is_concerned,
    decide=decide,
    managed=managed,
    overtaken=overtaken,
    effects=effects,
    metrics=figures,
    run_by=run_by,
    hears_at_once=frozenset({Pod.kind, Service.kind, *GROUPS, *KINDS}),
)
