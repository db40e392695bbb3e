"""PodGroups of training jobs as written. Pure.

Source: Kubernetes, scheduling.k8s.io PodGroup; kubernetes-sigs/scheduler-plugins and volcano-sh/volcano, PodGroup;
docs/jobs.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bus.events.decisions import KeepPodGroup
from bus.events.pods import NATIVE, PLUGINS, VOLCANO
from reactors.jobs.effectors.bodies import MADE_BY, reference
from reactors.jobs.shape import JOB, OPERATOR, Job

Json = dict[str, Any]

#: The written versions, by API; a cluster serves one or two of Kubernetes' own.
VERSIONS = {NATIVE: ("v1beta1", "v1alpha2"), PLUGINS: ("v1alpha1",), VOLCANO: ("v1beta1",)}


def collection(api: str, version: str, namespace: str) -> str:
    """Where an API server serves the PodGroups of a namespace."""
    return f"/apis/{api.removeprefix('PodGroup.')}/{version}/namespaces/{namespace}/podgroups"


def group(found: Mapping[str, Any], job: Job, decision: KeepPodGroup, version: str) -> Json:
    """The PodGroup of the job in ``found``. It has the job's annotations, since schedulers read options from them."""
    noted = found["metadata"].get("annotations") or {}
    kept = {
        name: text for name, text in noted.items() if not name.startswith("kubectl.kubernetes.io/")
    }
    return {
        "apiVersion": f"{decision.api.removeprefix('PodGroup.')}/{version}",
        "kind": "PodGroup",
        "metadata": {
            "name": job.name,
            "namespace": job.namespace,
            "labels": {OPERATOR: job.rules.operator, JOB: job.name},
            "annotations": {**kept, MADE_BY: decision.id},
            "ownerReferences": [reference(found, job)],
        },
        "spec": _spec(decision),
    }


def change(there: Mapping[str, Any], decision: KeepPodGroup) -> Json:
    """JSON merge patch for a new size of a job, on the condition of the read version."""
    identity = {name: there["metadata"][name] for name in ("uid", "resourceVersion")}
    least = {"minMember": decision.least, "minResources": _resources(decision)}
    return {"metadata": identity, "spec": least}


def _spec(decision: KeepPodGroup) -> Json:
    if decision.api == NATIVE:
        return {"schedulingPolicy": {"gang": {"minCount": decision.least}}}
    spec: Json = {"minMember": decision.least, "minResources": _resources(decision)}
    if decision.queue:
        spec["queue"] = decision.queue
    if decision.priority_class:
        spec["priorityClassName"] = decision.priority_class
    if decision.wait_seconds is not None:
        spec["scheduleTimeoutSeconds"] = decision.wait_seconds
    return spec


def _resources(decision: KeepPodGroup) -> dict[str, str]:
    return {
        name: f"{milli}m" if milli % 1_000 else str(milli // 1_000)
        for name, milli in decision.requests.items()
    }
