"""Messages for a pod without a node: kube-scheduler's, familiar to users, and those for refused binds. Pure."""

from __future__ import annotations

from collections.abc import Mapping

CPUS_TAKEN = "its CPUs were given to another pod meanwhile"
DEVICES_TAKEN = "its devices were given to another pod meanwhile"
RESERVATION_TAKEN = "the room of its reservation was taken meanwhile"
#: Namespaces without rights for Bursar's accounts to bind and evict pods (``deploy/manifests/rbac/namespaces.yaml``).
SYSTEM_NAMESPACES = frozenset({"kube-system", "kube-public", "kube-node-lease", "bursar-system"})
IN_SYSTEM = (
    "its namespace is a system namespace, where Bursar may not bind pods: name another scheduler"
)
#: The reason of a pod not bound as decided, by the text of the refusing plugin.
TOKENS = {
    CPUS_TAKEN: "cpus_taken",
    DEVICES_TAKEN: "devices_taken",
    RESERVATION_TAKEN: "reservation_taken",
}


def unschedulable(refused: Mapping[str, Mapping[str, int]], count: int, reason: str = "") -> str:
    """The message for a pod refused by all ``count`` nodes. ``reason``: the reason if no node was evaluated."""
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
