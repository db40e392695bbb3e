"""Scheduling: which node takes a waiting pod, by plugins over columns of numbers. Source: docs/scheduling.md.

The functions here import what computes with numpy when it is first needed: that takes a tenth of a second, which no question
should pay. Whoever places nothing never imports it.
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
    """A scheduler that has not begun. ``quotas``: makes the state of quotas, where a plugin reads it."""
    from reactors.scheduling.cycle.passes import Scheduler

    return Scheduler(
        policy.made(), cluster, is_shadow=is_shadow, dealt=dealt, preemption=policy.preemption,
        quotas=quotas,
    )  # fmt: skip


def quotas_of(cluster: ClusterState, trees: QuotaTrees) -> QuotaState:
    """What quotas say of pods, before anything is known."""
    from reactors.scheduling.queueing.quota_state import QuotaState

    return QuotaState(cluster, trees)
