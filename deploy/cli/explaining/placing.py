"""Where a pod that waits for a node would go now, and why nowhere: a step of ``bursar why``."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from bus.clock import format_stamp
from deploy.queries.scheduling import cluster_state, explained_pods
from projections.quota_trees.queries import Select
from reactors.scheduling.explaining import Explanation

#: The schedulerName that pods of Bursar have.
SCHEDULER = "bursar"
#: Nodes that are named with their scores.
NODES = 3


def steps(
    select: Select, cluster: str, uids: Collection[str], sequence: int, now_us: int
) -> Iterator[dict[str, Any]]:
    """One step for each of these pods that waits for Bursar to place it."""
    state = cluster_state(select, cluster)
    for pod, found in explained_pods(state, uids, SCHEDULER, sequence):
        yield {
            "sequence": None, "time": format_stamp(now_us),
            "step": "fits" if found.node else "unschedulable",
            "about": f"Pod {pod.namespace}/{pod.name}", "quota": "", "reason": found.message,
            "numbers": _numbers(found), "based_on": sequence, "id": "",
        }  # fmt: skip


def _numbers(found: Explanation) -> str:
    parts = [f"{one.node} scores {one.score}" for one in found.top[:NODES]]
    parts += [f"{plugin} refuses {nodes}" for plugin, nodes in found.refused_nodes.items()]
    text = f"{found.feasible} of {found.nodes} nodes fit: {', '.join(parts)}"
    return "; or ".join([text, *found.changes]) if parts else text.removesuffix(": ")
