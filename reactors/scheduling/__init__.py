"""Scheduling: plugins over columns of numbers choose the node of a waiting pod. Source: docs/scheduling.md.

The functions here import numpy and its users at their first call: the import takes a tenth of a second. A process without
placements never imports them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from projections.cluster import ClusterState
    from projections.quota_trees.forest import QuotaTrees
    from reactors.scheduling.cycle.passes import Scheduler
    from reactors.scheduling.queueing.quota_state import QuotaState
    from reactors.scheduling.settings import SchedulingPolicy
    from reactors.scheduling.shape import Dealt

#: The name of the reactor, and of its section of the settings.
NAME = "scheduling"
#: Version of the scheduler's rules.
RULES = 11


def scheduler_of(
    policy: SchedulingPolicy,
    cluster: ClusterState,
    is_shadow: bool,
    dealt: Mapping[str, Dealt],
    quotas: Callable[[], QuotaState | None],
) -> Scheduler:
    """A scheduler before its begin. ``quotas``: makes the state of quotas, if a plugin reads it."""
    from reactors.scheduling.cycle.passes import Scheduler

    return Scheduler(
        policy.made(), cluster, is_shadow=is_shadow, dealt=dealt, preemption=policy.preemption,
        quotas=quotas,
    )  # fmt: skip


def quotas_of(cluster: ClusterState, trees: QuotaTrees) -> QuotaState:
    """The state of quotas for pods, before any event."""
    from reactors.scheduling.queueing.quota_state import QuotaState

    return QuotaState(cluster, trees)
