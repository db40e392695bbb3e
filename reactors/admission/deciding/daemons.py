"""The number of observed nodes for a DaemonSet. Pure.

Its pods are reviewed one by one, so this only decides whether a new DaemonSet is refused as a whole. Only some node labels
are known (``docs/admission.md``). A DaemonSet with other labels or affinity is charged by its pods alone.

Source: Kubernetes, "DaemonSet" (how daemon pods are scheduled).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from projections.cluster.rows import Node

DAEMON_SET = "DaemonSet"

#: Clusters with one value of these are the rule; they are not said of nodes.
_EVERYWHERE = ("kubernetes.io/os", "kubernetes.io/arch", "beta.kubernetes.io/os", "beta.kubernetes.io/arch")  # fmt: skip


def matching(object: Mapping[str, Any], nodes: Collection[Node]) -> int:
    """The number of ``nodes`` selected by a DaemonSet; 0 if unknown."""
    spec = object["spec"]["template"]["spec"]
    selector = spec.get("nodeSelector") or {}
    if spec.get("affinity") or not isinstance(selector, dict):
        return 0
    asked = {key: value for key, value in selector.items() if key not in _EVERYWHERE}
    return sum(all(node.labels.get(key) == value for key, value in asked.items()) for node in nodes)
