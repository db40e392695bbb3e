"""The words for a pod that no node takes: kube-scheduler's, so that people find what they know; or whose part went. Pure."""

from __future__ import annotations

from collections.abc import Mapping

CPUS_TAKEN = "its CPUs were given to another pod meanwhile"
DEVICES_TAKEN = "its devices were given to another pod meanwhile"
RESERVATION_TAKEN = "the room of its reservation was taken meanwhile"
#: Namespaces in which Bursar's accounts bind and evict no pods (``deploy/manifests/rbac/namespaces.yaml``).
SYSTEM_NAMESPACES = frozenset({"kube-system", "kube-public", "kube-node-lease", "bursar-system"})
IN_SYSTEM = (
    "its namespace is a system namespace, where Bursar may not bind pods: name another scheduler"
)
#: Why a pod is not bound as it was decided, by what the plugin says that refuses it.
TOKENS = {
    CPUS_TAKEN: "cpus_taken",
    DEVICES_TAKEN: "devices_taken",
    RESERVATION_TAKEN: "reservation_taken",
}


def unschedulable(refused: Mapping[str, Mapping[str, int]], count: int, reason: str = "") -> str:
    """The message for a pod that none of ``count`` nodes takes. ``reason``: why none was looked at."""
    if reason:
        return f"0/{count} nodes are available: {reason}."
    if not count:
        return "no nodes available to schedule pods"
    totals: dict[str, int] = {}
    for reasons in refused.values():
        for why, nodes in reasons.items():
            totals[why] = totals.get(why, 0) + nodes
    listed = ", ".join(sorted(f"{nodes} {why}" for why, nodes in totals.items()))
    return f"0/{count} nodes are available: {listed}."
