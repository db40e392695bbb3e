"""Plugins for pods on nodes refused by the scheduler's own filters today.

A pod violates a rule where its filter refuses the pod's own node, as if the pod were placed there anew. Each planned move is
deducted, so of two pods excluding each other only one moves, and of a skewed domain only the excess.

Source: kubernetes-sigs/descheduler, "RemovePodsViolating…"; docs/rebalancing.md.
"""

from __future__ import annotations

from reactors.rebalancing.plan import RebalancingPlan
from reactors.rebalancing.settings import PluginName
from reactors.scheduling.plugins import pod_affinity, topology_spread
from reactors.scheduling.plugins.nodes import node_affinity, taint_toleration

#: By plugin: the filter, and those of its reasons naming violations. Other reasons name unknown or uncompared terms.
FILTERS: dict[PluginName, tuple[str, frozenset[str]]] = {
    "RemovePodsViolatingNodeAffinity": (
        node_affinity.NodeAffinity.name,
        frozenset({node_affinity.REASON}),
    ),
    "RemovePodsViolatingNodeTaints": (
        taint_toleration.TaintToleration.name,
        frozenset({taint_toleration.REASON}),
    ),
    "RemovePodsViolatingInterPodAntiAffinity": (
        pod_affinity.InterPodAffinity.name,
        # Another pod's term moves no pod: it may be that of another tenant.
        frozenset({pod_affinity.FAR}),
    ),
    "RemovePodsViolatingTopologySpreadConstraint": (
        topology_spread.PodTopologySpread.name,
        frozenset({topology_spread.SKEWED}),
    ),
}


class Violations:
    """Deschedules the pods of a node violating one rule, the least important first."""

    def __init__(self, name: PluginName) -> None:
        self.name = name
        self._filter, self._reasons = FILTERS[name]

    def deschedule(self, plan: RebalancingPlan, row: int) -> None:
        """Propose the pods of one node violating the rule."""
        for pod in plan.pods_on(row):
            found = self._reasons.intersection(plan.refusals(pod, self._filter))
            if found:
                plan.propose(pod, self.name, ", ".join(sorted(found)))
