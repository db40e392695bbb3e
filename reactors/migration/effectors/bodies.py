"""Reservations and statuses of PodMigrationJobs as written to the API server. Pure.

A Reservation belongs to the whole cluster, so every reader of Reservations reads its template. The template has the pod's fields
for scheduling only: no environment, commands, arguments or mounts.

Source: koordinator-sh/koordinator, pkg/descheduler/controllers/migration/reservation/util.go; docs/migration.md.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import msgspec

from bus.clock import SECOND_US, format_stamp
from bus.errors import DemandError
from bus.events.migrations import ReportMigration
from projections.cluster.reservations import go_duration_us

Json = dict[str, Any]

API = "scheduling.koordinator.sh/v1alpha1"
MIGRATIONS, RESERVATIONS = f"/apis/{API}/podmigrationjobs", f"/apis/{API}/reservations"
#: The label for the order of use of reservations: the smallest number first.
ORDER = "scheduling.koordinator.sh/reservation-order"
CREATED_BY = "app.kubernetes.io/created-by"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"

#: The fields of a pod, and of its containers, for scheduling.
_SPEC = (
    "affinity", "nodeSelector", "tolerations", "topologySpreadConstraints", "priority", "priorityClassName",
    "preemptionPolicy", "schedulerName", "overhead", "runtimeClassName", "hostNetwork", "os", "resources",
)  # fmt: skip
_CONTAINER = ("name", "image", "resources", "ports", "restartPolicy")
#: Annotations of a pod for Koordinator's scheduler, without results of schedulers and evictions.
_TERMS = ("scheduling.koordinator.sh/", "gang.scheduling.koordinator.sh/")
_ANSWERS = frozenset(
    f"scheduling.koordinator.sh/{one}"
    for one in ("device-allocated", "resource-status", "reservation-allocated", "eviction-cost")
)


class _Term(msgspec.Struct):
    match_fields: list[Json] | None = msgspec.field(name="matchFields", default=None)


class _NodeSelector(msgspec.Struct):
    terms: list[_Term] | None = msgspec.field(name="nodeSelectorTerms", default=None)


class _NodeAffinity(msgspec.Struct):
    required: _NodeSelector | None = msgspec.field(name=_REQUIRED, default=None)


class _Affinity(msgspec.Struct):
    nodes: _NodeAffinity | None = msgspec.field(name="nodeAffinity", default=None)


class _PodSpec(msgspec.Struct):
    affinity: _Affinity | None = None


class _PodTemplate(msgspec.Struct):
    spec: _PodSpec | None = None


class _Spec(msgspec.Struct):
    template: _PodTemplate | None = None
    owners: list[Json] | None = None
    ttl: str | None = None
    expires: str | None = None


class _Metadata(msgspec.Struct):
    name: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Given(msgspec.Struct):
    """The form of a job's template, as far as it is completed here. The API server keeps any other form."""

    metadata: _Metadata | None = None
    spec: _Spec | None = None


def reservation(job: Mapping[str, Any], pod: Mapping[str, Any], now_us: int) -> Json:
    """The Reservation of a job for its pod: the job's template, completed from the pod; never on the pod's node.

    Raises DemandError for a template of another form.
    """
    given = copy.deepcopy((job["spec"].get("reservationOptions") or {}).get("template") or {})
    try:
        msgspec.convert(given, _Given)
    except msgspec.ValidationError as error:
        raise DemandError(path="spec.reservationOptions.template", reason=str(error)) from error
    metadata, spec = given.get("metadata") or {}, given.get("spec") or {}
    spec["template"] = spec.get("template") or _template(pod)
    spec["owners"] = spec.get("owners") or [_owner(pod)]
    spec["allocateOnce"] = True
    placed = spec["template"]["spec"] = spec["template"].get("spec") or {}
    placed.pop("nodeName", None)
    _avoid(placed, pod["spec"].get("nodeName"))
    ttl = job["spec"].get("ttl")
    if not spec.get("ttl") and not spec.get("expires") and ttl and (go_duration_us(ttl) or 0) > 0:
        spec["ttl"] = ttl
    labels = {**(metadata.get("labels") or {}), CREATED_BY: "bursar", ORDER: str(now_us // 1000)}
    return {
        "apiVersion": API, "kind": "Reservation",
        "metadata": {
            "name": metadata.get("name") or job["metadata"]["uid"], "labels": labels,
            "annotations": metadata.get("annotations") or {}, "ownerReferences": [_reference(job)],
        },
        "spec": spec,
    }  # fmt: skip


def named(job: Mapping[str, Any], pod: Mapping[str, Any], made: Mapping[str, Any]) -> Json:
    """JSON merge patch of a job with its reservation and its pod, on the condition of its uid."""
    reference = {"apiVersion": API, "kind": "Reservation"}
    reference |= {key: made["metadata"][key] for key in ("name", "uid")}
    return {
        "metadata": {"uid": job["metadata"]["uid"]},
        "spec": {
            "podRef": {"uid": pod["metadata"]["uid"]},
            "reservationOptions": {"reservationRef": reference},
        },
    }


def status(job: Mapping[str, Any], decision: ReportMigration, now_us: int) -> Json:
    """JSON merge patch of a job's status, on the condition of its version. A condition keeps its time while its status stays."""
    known = {
        (one.get("type"), one.get("status")): one.get("lastTransitionTime")
        for one in (job.get("status") or {}).get("conditions") or ()
    }
    now = format_stamp(now_us // SECOND_US * SECOND_US)
    conditions = [
        {
            "type": one.type, "status": (is_true := str(one.is_true)), "reason": one.reason, "message": one.message,
            "lastTransitionTime": known.get((one.type, is_true)) or now,
        }
        for one in decision.conditions
    ]  # fmt: skip
    written: Json = {
        "phase": decision.phase, "status": decision.status, "reason": decision.cause, "message": decision.message,
        "nodeName": decision.node, "conditions": conditions,
    }  # fmt: skip
    if decision.new_pod is not None:
        new = decision.new_pod
        written["podRef"] = {"namespace": new.namespace, "name": new.name, "uid": new.uid}
    identity = {key: job["metadata"][key] for key in ("uid", "resourceVersion")}
    return {"metadata": identity, "status": written}


def _reference(job: Mapping[str, Any]) -> Json:
    identity = {key: job["metadata"][key] for key in ("name", "uid")}
    return {"apiVersion": API, "kind": "PodMigrationJob", **identity, "controller": True}


def _template(pod: Mapping[str, Any]) -> Json:
    metadata, spec = pod["metadata"], pod["spec"]
    annotations = {
        key: text
        for key, text in (metadata.get("annotations") or {}).items()
        if key.startswith(_TERMS) and key not in _ANSWERS
    }
    kept = {key: copy.deepcopy(spec[key]) for key in _SPEC if key in spec}
    for part in ("containers", "initContainers"):
        if spec.get(part):
            kept[part] = [
                {key: copy.deepcopy(one[key]) for key in _CONTAINER if key in one} for one in spec[part]
            ]  # fmt: skip
    claims = [one for one in spec.get("volumes") or () if "persistentVolumeClaim" in one]
    if claims:
        kept["volumes"] = copy.deepcopy(claims)
    about = {"namespace": metadata["namespace"], "labels": metadata.get("labels") or {}}
    return {"metadata": about | {"annotations": annotations}, "spec": kept}


def _owner(pod: Mapping[str, Any]) -> Json:
    """The pods allowed to use the room: those of the pod's controller; for a pod without a node, the pod itself."""
    metadata = pod["metadata"]
    controllers = (one for one in metadata.get("ownerReferences") or () if one.get("controller"))
    controller = next(controllers, None)
    if controller is None or not pod["spec"].get("nodeName"):
        identity = {key: metadata[key] for key in ("namespace", "name", "uid")}
        return {"object": {"kind": "Pod", **identity}}
    return {"controller": {**controller, "namespace": metadata["namespace"]}}


def _avoid(spec: Json, node: str | None) -> None:
    """Exclude this node from a template."""
    if not node:
        return
    affinity = spec["affinity"] = spec.get("affinity") or {}
    nodes = affinity["nodeAffinity"] = affinity.get("nodeAffinity") or {}
    required = nodes[_REQUIRED] = nodes.get(_REQUIRED) or {}
    terms = required["nodeSelectorTerms"] = required.get("nodeSelectorTerms") or [{}]
    for term in terms:
        rule = {"key": "metadata.name", "operator": "NotIn", "values": [node]}
        term["matchFields"] = [*(term.get("matchFields") or ()), rule]
