"""PodLifeTime: moves pods older than a limit, the oldest first.

Source: kubernetes-sigs/descheduler, "PodLifeTime"; docs/rebalancing.md.
"""

from __future__ import annotations

from typing import ClassVar

from bus.clock import SECOND_US
from reactors.rebalancing.plan import RebalancingPlan
from reactors.rebalancing.settings import PodLifeTimeSettings


class PodLifeTime:
    """Deschedules the old pods of a node."""

    name: ClassVar[str] = "PodLifeTime"

    def __init__(self, settings: PodLifeTimeSettings) -> None:
        self._most_s = settings.max_seconds

    def deschedule(self, plan: RebalancingPlan, row: int) -> None:
        """Propose the too old pods of one node."""
        if self._most_s is None:
            return
        for pod in sorted(plan.pods_on(row), key=lambda one: (one.started_us, one.uid)):
            age_s = (plan.at_us - pod.started_us) // SECOND_US
            if age_s > self._most_s:
                plan.propose(pod, self.name, f"the pod is {age_s} s old, limit {self._most_s} s")
