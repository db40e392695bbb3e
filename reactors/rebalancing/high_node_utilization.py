"""HighNodeUtilization: empties nodes with few requests.

An autoscaler can remove an empty node. The scheduler must pack: with a spreading one the plan refuses the moves.

Source: kubernetes-sigs/descheduler, "HighNodeUtilization"; docs/rebalancing.md.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from reactors.rebalancing.plan import RebalancingPlan
from reactors.rebalancing.settings import HighNodeUtilizationSettings
from reactors.rebalancing.shape import Refusal
from reactors.scheduling.columns.table import Ints


class HighNodeUtilization:
    """Balances over all nodes, by the requests of their pods."""

    name: ClassVar[str] = "HighNodeUtilization"

    def __init__(self, settings: HighNodeUtilizationSettings) -> None:
        self._settings = settings

    def balance(self, plan: RebalancingPlan) -> None:
        """Propose the pods of nodes at or below every threshold, the emptiest node first."""
        percents, columns = self._percents(plan), plan.columns
        if not percents:
            return
        is_low = ~np.array(columns.unschedulable, np.bool_)
        for name, found in percents.items():
            is_low &= found <= self._settings.thresholds[name]
        rows = np.flatnonzero(is_low).tolist()
        if len(rows) <= self._settings.number_of_nodes:
            return
        sources = {columns.names[row] for row in rows}

        def accepts(node: str) -> Refusal | None:
            if node in sources:
                return Refusal("destination-underused", f"the scheduler chooses {node}, which is to become empty")  # fmt: skip
            return None

        for row in sorted(rows, key=lambda row: (sum(int(one[row]) for one in percents.values()), columns.names[row])):  # fmt: skip
            shares = ", ".join(f"{name} {found[row]} %" for name, found in percents.items())
            for pod in plan.pods_on(row):
                reason = f"little of {columns.names[row]} is requested: {shares}"
                plan.propose(pod, self.name, reason, accepts=accepts)

    def _percents(self, plan: RebalancingPlan) -> dict[str, Ints]:
        """By resource of the thresholds, requested percent of each node; 0 where a node does not offer it."""
        columns, found = plan.columns, dict[str, Ints]()
        for name in self._settings.thresholds:
            if name == "pods":
                used, whole = columns.pods, columns.most_pods
            else:
                at = columns.resources.names.get(name)
                if at is None:
                    continue
                whole = columns.resources.allocatable[:, at]
                used = whole - columns.resources.free[:, at]
            found[name] = 100 * used // np.maximum(whole, 1)
        return found
