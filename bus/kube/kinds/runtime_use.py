"""Reads the training runtime of a TrainJob, and its values in the runtime's place.

Source: Kubeflow Trainer v2.2, ``pkg/apis/trainer/v1alpha1/trainjob_types.go``; docs/jobs.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from bus.errors import DemandError
from bus.events.runtimes import RuntimeUse
from bus.kube.kinds.paths import count, one, text
from bus.kube.kinds.templates import RUNTIME, pod_needs, template_at

GROUP = "trainer.kubeflow.org"
CLUSTER_KIND, NAMESPACED_KIND = "ClusterTrainingRuntime", "TrainingRuntime"
#: Longest resources of a node, as JSON.
LONGEST_RESOURCES = 16 * 1024
#: The field of an API before 2.2 in the place of ``runtimePatches``.
_FORMER = "spec.podTemplateOverrides"
_NODE = "spec.trainer.resourcesPerNode"
#: How many nodes train.
NODES = "spec.trainer.numNodes"


def use_of(object: Mapping[str, Any]) -> RuntimeUse:
    """The runtime of a TrainJob. Raises DemandError, also for an API before 2.2 with patches of its runtime."""
    if one(object, _FORMER) is not None:
        reason = "of Kubeflow Trainer before 2.2, which is not read: install its CRDs of 2.2 or later, and use runtimePatches"
        raise DemandError(path=_FORMER, reason=reason)
    if text(object, "spec.runtimeRef.apiGroup") not in ("", GROUP):
        raise DemandError(path="spec.runtimeRef.apiGroup", reason=f"not {GROUP}")
    kind = text(object, "spec.runtimeRef.kind") or CLUSTER_KIND
    if kind not in (CLUSTER_KIND, NAMESPACED_KIND):
        reason = f"neither {CLUSTER_KIND} nor {NAMESPACED_KIND}"
        raise DemandError(path="spec.runtimeRef.kind", reason=reason)
    name = text(object, "spec.runtimeRef.name")
    if not name or not name.isprintable():
        raise DemandError(path="spec.runtimeRef.name", reason="missing, or no name")
    nodes = count(object, NODES, default=-1)
    return RuntimeUse(kind, name, None if nodes < 0 else nodes, _resources(object))


def key_of(use: RuntimeUse) -> str:
    """Placeholder in a demand for an unobserved runtime."""
    return f"{RUNTIME}{use.kind}/{use.name}"


def _resources(object: Mapping[str, Any]) -> str:
    """``resourcesPerNode`` as JSON, if it has any. Raises DemandError for amounts invalid in a container."""
    found = one(object, _NODE)
    if found is None:
        return ""
    container = {"name": "node", "resources": found[1]}
    template = template_at({"spec": {"containers": [container]}}, _NODE)
    pod_needs(template, _NODE)
    resources = (template.spec.containers or [])[0].resources
    if resources is None or not (resources.requests or resources.limits):
        return ""
    written = msgspec.json.encode(resources).decode()
    if len(written) > LONGEST_RESOURCES:
        raise DemandError(path=_NODE, reason=f"more than {LONGEST_RESOURCES} characters")
    return written
