"""One round of rebalancing: every plugin in its order, on one frozen state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, runtime_checkable

from projections.cluster import ClusterState
from projections.cluster.pod_terms import DisruptionBudget
from reactors.rebalancing.duplicates import RemoveDuplicates
from reactors.rebalancing.high_node_utilization import HighNodeUtilization
from reactors.rebalancing.low_node_load import LowNodeLoad
from reactors.rebalancing.plan import RebalancingPlan
from reactors.rebalancing.pod_lifetime import PodLifeTime
from reactors.rebalancing.settings import PLUGINS, RebalancingPolicy
from reactors.rebalancing.shape import Outcome
from reactors.rebalancing.violations import FILTERS, Violations
from reactors.scheduling.cycle.passes import Scheduler


@runtime_checkable
class Deschedule(Protocol):
    """A plugin for the pods of one node."""

    def deschedule(self, plan: RebalancingPlan, row: int) -> None:
        """Propose pods of a node."""


@runtime_checkable
class Balance(Protocol):
    """A plugin for all nodes."""

    def balance(self, plan: RebalancingPlan) -> None:
        """Propose pods of any node."""


class Rebalancing:
    """The plugins of a policy. It observes earlier rounds, then plans one."""

    def __init__(self, policy: RebalancingPolicy) -> None:
        self._policy = policy
        self._load = LowNodeLoad(policy.low_node_load)

    @property
    def rounds(self) -> int:
        """Rounds of observation, the planned one included."""
        return self._load.rounds if LowNodeLoad.name in self._policy.plugins else 1

    def observe(self, state: ClusterState, at_us: int) -> None:
        """Observe an earlier round."""
        self._load.observe(state, at_us)

    def plan(self, state: ClusterState, scheduler: Scheduler, sequence: int, at_us: int) -> Outcome:
        """The moves of the round at a moment. Changes the columns of ``scheduler``, and nothing else."""
        plan = RebalancingPlan(state, scheduler, self._policy, sequence, at_us)
        if not state.listed_us(DisruptionBudget.kind):
            plan.note("disruption budgets were never listed: whether one protects a pod is unknown")
        for plugin in self._plugins():
            if isinstance(plugin, Balance):
                plugin.balance(plan)
            else:
                for row in range(len(plan.columns.names)):
                    plugin.deschedule(plan, row)
        return plan.outcome

    def _plugins(self) -> Iterator[Deschedule | Balance]:
        for name in PLUGINS:
            if name not in self._policy.plugins:
                continue
            if name in FILTERS:
                yield Violations(name)
            elif name == "LowNodeLoad":
                yield self._load
            elif name == "RemoveDuplicates":
                yield RemoveDuplicates()
            elif name == "PodLifeTime":
                yield PodLifeTime(self._policy.pod_life_time)
            else:
                yield HighNodeUtilization(self._policy.high_node_utilization)
