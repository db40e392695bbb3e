"""Pods from people's manifests, as the API server would create them: for dry runs. Pure."""

from __future__ import annotations

from typing import Any

import msgspec

from bus.errors import BursarError, ObservationError
from bus.events.pods import PodObserved
from bus.kube.watch.labels import LabelPolicy
from bus.kube.watch.records import Record
from bus.sources import pods
from projections.cluster import ClusterState, Pod
from projections.cluster.rows import pod as row_of

Json = dict[str, Any]


def pod_of(
    manifest: Json, number: int, namespace: str, cluster: ClusterState, labels: LabelPolicy
) -> Pod:
    """The ``number``-th pod of a file, not bound yet. Raises ObservationError for an invalid one."""
    metadata = dict(manifest.get("metadata") or {})
    name = metadata.get("name") or metadata.get("generateName")
    if not isinstance(name, str):
        raise ObservationError(f"object {number} has no name")
    metadata |= {
        "name": name, "uid": f"dry-run-{number}", "resourceVersion": "1",
        "namespace": metadata.get("namespace") or namespace,
    }  # fmt: skip
    spec = _admitted(dict(manifest.get("spec") or {}), cluster)
    raw = msgspec.json.encode({"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}})
    try:
        event = pods.translate(Record("ADDED", raw, 0, "dry-run", "dry-run"), labels)
        return row_of(PodObserved.read(event), event.time_us, None)
    except BursarError as error:
        raise ObservationError(f"pod {name}: {error}") from None


def _admitted(spec: Json, cluster: ClusterState) -> Json:
    """A spec with the defaults for the choice of a node: the class's priority, and requests from limits."""
    known = cluster.priority_class(str(spec.get("priorityClassName") or ""))
    if known is not None:
        spec["priority"] = known.value
    for part in ("containers", "initContainers"):
        if isinstance(spec.get(part), list):
            spec[part] = [_requesting(one) if isinstance(one, dict) else one for one in spec[part]]
    return spec


def _requesting(container: Json) -> Json:
    """Quantities as texts, with requests in place of missing ones from limits."""
    resources = container.get("resources")
    if not isinstance(resources, dict):
        return container
    limits, requests = _texts(resources.get("limits")), _texts(resources.get("requests"))
    return container | {"resources": {"limits": limits, "requests": limits | requests}}


def _texts(quantities: Any) -> dict[str, str]:
    if not isinstance(quantities, dict):
        return {}
    return {str(name): str(amount) for name, amount in quantities.items()}
