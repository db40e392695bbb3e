"""Where a pod that waits for a node would go now, and why nowhere: a step of ``bursar why``."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from bus.clock import format_stamp
from deploy.queries.scheduling import cluster_state, explained_pods
from projections.quota_trees.queries import Select
from reactors.scheduling.contract import Preemption
from reactors.scheduling.explaining import Explanation

#: The schedulerName that pods of Bursar have.
SCHEDULER = "bursar"
#: Nodes that are named with their scores.
NODES = 3
#: Less important pods that are named which would have to go.
VICTIMS = 3


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
    changes = [*found.changes, *_evicting(found.preemption)]
    return "; or ".join([text, *changes]) if parts else text.removesuffix(": ")


def _evicting(found: Preemption | None) -> Iterator[str]:
    if found is not None and found.node:
        names = [f"{one.namespace}/{one.name}" for one in found.victims]
        more = f" and {len(names) - VICTIMS} more" if len(names) > VICTIMS else ""
        yield f"evict {', '.join(names[:VICTIMS])}{more} (node {found.node})"
