"""RemoveDuplicates: spreads pods of one controller from a shared node to other nodes.

A node keeps its share: the pods of the controller, divided by the nodes open to them, rounded up.

Source: kubernetes-sigs/descheduler, "RemoveDuplicates"; docs/rebalancing.md.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import ClassVar

from projections.cluster import Pod
from reactors.rebalancing.plan import RebalancingPlan
from reactors.rebalancing.shape import Refusal

#: Filters closing a node to every pod of a controller, whatever room it has.
CLOSING = ("KnownTerms", "NodeUnschedulable", "TaintToleration", "NodeAffinity")


class RemoveDuplicates:
    """Balances over all nodes."""

    name: ClassVar[str] = "RemoveDuplicates"

    def balance(self, plan: RebalancingPlan) -> None:
        """Propose the pods of each controller above the share of their node."""
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        pods: dict[str, list[Pod]] = defaultdict(list)
        for row, node in enumerate(plan.columns.names):
            for one in plan.columns.placed_on(row):
                if one.pod.owner is not None:
                    counts[one.pod.owner.uid][node] += 1
            for pod in plan.pods_on(row):
                if pod.owner is not None:
                    pods[pod.owner.uid].append(pod)
        for uid, found in sorted(counts.items()):
            if pods[uid] and max(found.values()) > 1:
                self._spread(plan, pods[uid], found)

    def _spread(self, plan: RebalancingPlan, pods: list[Pod], counts: Counter[str]) -> None:
        nodes = plan.open_nodes(pods[0], CLOSING)
        if nodes < 2:
            return
        kind = pods[0].owner.kind if pods[0].owner is not None else ""
        count = counts.total()
        share = -(-count // nodes)

        def accepts(node: str) -> Refusal | None:
            if counts[node] >= share:
                return Refusal("destination-duplicates", f"the scheduler chooses {node}, which has its share")  # fmt: skip
            counts[node] += 1
            return None

        for pod in pods:
            if counts[pod.node] > share:
                reason = f"{counts[pod.node]} of {count} pods of the {kind} are on {pod.node}, share {share}"
                counts[pod.node] -= plan.propose(pod, self.name, reason, accepts=accepts)
