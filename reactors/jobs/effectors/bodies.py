"""The pods, services and statuses of a training job as written. Pure.

A pod is the template of its replica type, read from the job itself when the pod is made: the history holds no image and no
command. Bursar adds labels, the owner, the restart policy, and the variables for the pods to find each other.

Source: Kubeflow training-operator v1, ``common/pod.go`` and ``common/service.go``; docs/jobs.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from bus.clock import SECOND_US, format_stamp
from bus.errors import ObservationError
from bus.events.decisions import CreateReplica, ReportJob, Target
from bus.events.pods import Owner
from bus.events.workloads import ReplicaCounts, WorkloadCondition, by_replica_type
from bus.kube.kinds import GOVERNED
from bus.kube.watch.records import Metadata
from bus.sources.podgroups import KOORDINATOR, gang_terms
from bus.sources.training import LAYOUTS, training_of
from reactors.effectors.release import object_path
from reactors.jobs.rendezvous import POD_IP, PodPlan, pod_plan
from reactors.jobs.shape import (
    INDEX,
    JOB,
    KINDS,
    OPERATOR,
    ROLE,
    TYPE,
    GangScheduler,
    Job,
    JobStatus,
    Slot,
    selects,
)
from reactors.jobs.steps import has_place, us

Json = dict[str, Any]

#: On objects made for a job: the id of the decision.
MADE_BY = "bursar.io/made-by"
_KINDS = {kind.kind: kind for kind in GOVERNED if kind.kind in LAYOUTS}


def place_fault(body: Json) -> Callable[[Json], str]:
    """The fault of an existing object of the job, made for another place than ``body``; "" = none."""
    wanted = body["metadata"].get("labels") or {}

    def fault(there: Json) -> str:
        labels = there["metadata"].get("labels") or {}
        is_there = all(labels.get(name) == wanted.get(name) for name in (JOB, TYPE, INDEX))
        return "" if is_there else "is in another place of the job"

    return fault


def api_version(found: Mapping[str, Any]) -> str:
    """Of a job, as its object says it."""
    return str(found.get("apiVersion") or "kubeflow.org/v1")


class _Camel(msgspec.Struct, rename="camel"):
    pass


class _Labelled(_Camel):
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Variable(_Camel):
    name: str = ""


class _Port(_Camel):
    name: str | None = None
    container_port: int | None = None


class _Container(_Camel):
    name: str = ""
    env: list[_Variable] | None = None
    ports: list[_Port] | None = None


class _PodSpec(_Camel):
    containers: list[_Container] | None = None
    init_containers: list[_Container] | None = None


class _Template(_Camel):
    """The needed fields of a template; the API server checks the rest."""

    metadata: _Labelled | None = None
    spec: _PodSpec | None = None


def job_path(kind: str, namespace: str, name: str) -> str:
    """Where an API server serves the job."""
    return object_path(_KINDS[kind], namespace, name)


def job_in(kind: str, found: Mapping[str, Any]) -> Job:
    """The job in an object. Raises ObservationError for an object without meaning."""
    try:
        metadata = msgspec.convert(found["metadata"], Metadata)
    except (KeyError, msgspec.ValidationError) as error:
        raise ObservationError(f"the job's metadata: {error}") from None
    training = training_of(kind, metadata, found.get("spec"), found.get("status"))
    if training is None:
        raise ObservationError("the job's specification cannot be read")
    status = JobStatus(
        training.conditions, training.counts, us(training.start), us(training.completion)
    )
    return Job(
        metadata.uid, kind, metadata.namespace or "", metadata.name, training.spec, status,
        training.is_deleting,
    )  # fmt: skip


def check_template(found: Mapping[str, Any], job: Job, type: str) -> None:
    """Raises ObservationError where the template of a replica type has not the shape of one."""
    try:
        msgspec.convert(_replicas(found, job, type).get("template"), _Template | None)
    except msgspec.ValidationError as error:
        raise ObservationError(f"the template of {type}: {error}") from None


def pod(found: Mapping[str, Any], job: Job, slot: Slot, decision: CreateReplica) -> Json:
    """The decided pod for one slot of the job in ``found``."""
    gang = GangScheduler(decision.gang_scheduler) if decision.gang_scheduler else None
    plan = pod_plan(job, slot, gang)
    template = _template(found, job, slot)
    metadata = template.get("metadata") or {}
    spec = dict(template.get("spec") or {})
    spec["restartPolicy"] = plan.restart_policy
    if plan.scheduler_name:
        spec["schedulerName"] = plan.scheduler_name
    if plan.group:
        spec["schedulingGroup"] = {"podGroupName": plan.group}
    # TensorFlow's variables are for the training container; those of the other kinds are for all containers.
    only = job.rules.container if job.kind == "TFJob" else ""
    for part in ("initContainers", "containers"):
        if spec.get(part):
            spec[part] = [
                one if only and one.get("name") != only else _with_variables(one, plan)
                for one in spec[part]
            ]
    labels = {**(metadata.get("labels") or {}), **plan.labels}
    annotations = {**(metadata.get("annotations") or {}), **plan.annotations, MADE_BY: decision.id}
    if gang is None and gang_terms(_group(spec), labels, annotations) is None:
        annotations |= _notes(job)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": decision.replica,
            "namespace": job.namespace,
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [reference(found, job)],
        },
        "spec": spec,
    }


def _notes(job: Job) -> dict[str, str]:
    """Annotations for a scheduler to start a job's pods together without a PodGroup; empty if it asks for none."""
    if job.spec.gang is None:
        return {}
    wanted = job.spec.gang.min_available
    # More than there are would never start.
    least = job.total if wanted is None else min(max(wanted, 0), job.total)
    return {f"{KOORDINATOR}name": job.name, f"{KOORDINATOR}min-available": str(least)}


def _group(spec: Mapping[str, Any]) -> str | None:
    """The PodGroup named in a template itself."""
    found = spec.get("schedulingGroup")
    name = found.get("podGroupName") if isinstance(found, dict) else None
    return name if isinstance(name, str) else None


def service(found: Mapping[str, Any], job: Job, slot: Slot, decision: str) -> Json:
    """The headless service of one slot's pods, the same for every attempt."""
    plan = pod_plan(job, slot, None, has_variables=False)
    labels = {name: text for name, text in plan.labels.items() if name != ROLE}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": slot.name,
            "namespace": job.namespace,
            "labels": labels,
            "annotations": {MADE_BY: decision},
            "ownerReferences": [reference(found, job)],
        },
        "spec": {"clusterIP": "None", "selector": labels, "ports": _ports(found, job, slot)},
    }


def claimed_path(target: Target) -> str:
    """Where an API server serves the pod or service."""
    part = "pods" if target.kind == "Pod" else "services"
    return f"/api/v1/namespaces/{target.namespace}/{part}/{target.name}"


def adopted(
    found: Mapping[str, Any], job: Mapping[str, Any], owner: Owner
) -> tuple[list[Json] | None, str]:
    """The owners of an object with the job as its controller; None where it shall not be written, and why not, "" = it is so."""
    metadata = found["metadata"]
    owners: list[Json] = [*(metadata.get("ownerReferences") or ())]
    controller = next((one["uid"] for one in owners if one.get("controller")), "")
    if controller:
        return None, "" if controller == owner.uid else "somebody else controls it"
    wanted = job_in(owner.kind, job)
    if wanted.is_deleting or wanted.status.is_finished or wanted.spec.suspend:
        return None, "the job takes nothing any more"
    if metadata.get("deletionTimestamp"):
        return None, "it is being deleted"
    labels = metadata.get("labels") or {}
    # In no place of the job it would be deleted for it.
    is_there = has_place(wanted, labels.get(TYPE, ""), labels.get(INDEX, ""))
    if not (is_there and wanted.selects(labels)):
        return None, "it has not the labels of the job"
    return [*owners, reference(job, wanted)], ""


def released(found: Mapping[str, Any], owner: Owner) -> tuple[list[Json] | None, str]:
    """The owners of an object without the job; None where it shall not be written, and why not, "" = it is so."""
    metadata = found["metadata"]
    owners: list[Json] = [*(metadata.get("ownerReferences") or ())]
    others = [one for one in owners if one.get("uid") != owner.uid]
    if len(others) == len(owners):
        return None, ""
    if selects(owner.kind, owner.name, metadata.get("labels") or {}):
        return None, "it has the labels of the job"
    return others, ""


def owned(found: Mapping[str, Any], owners: list[Json]) -> Json:
    """JSON merge patch of an object's owners, on the condition of the read version."""
    identity = {name: found["metadata"][name] for name in ("uid", "resourceVersion")}
    return {"metadata": {**identity, "ownerReferences": owners}}


def status(found: Mapping[str, Any], decision: ReportJob) -> Json:
    """JSON merge patch of a job's status, on the condition of the read version.

    It has the operator's fields: counts without zeros, and ``lastReconcileTime`` only for jobs without pods to make.
    """
    metadata, before = found["metadata"], found.get("status") or {}
    at = format_stamp(decision.at_us // SECOND_US * SECOND_US)
    known = {one.get("type"): one for one in before.get("conditions") or ()}
    written: Json = {
        "conditions": [_condition(one, known.get(one.type), at) for one in decision.conditions],
        "replicaStatuses": {
            **dict.fromkeys(before.get("replicaStatuses") or (), None),
            **{
                type: _counts(one) | _selector(decision.target, type)
                for type, one in decision.counts.items()
            },
        },
    }
    for name, at_us in (
        ("startTime", decision.start_us), ("completionTime", decision.completion_us),
    ):  # fmt: skip
        if at_us is not None:
            written[name] = format_stamp(at_us // SECOND_US * SECOND_US)
    identity = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
    return {"metadata": identity, "status": written}


def _counts(one: ReplicaCounts) -> Json:
    # A merge patch keeps absent fields, and removes null ones.
    return {
        "active": one.active or None, "succeeded": one.succeeded or None, "failed": one.failed or None,
    }  # fmt: skip


def _selector(job: Target, type: str) -> Json:
    """The selector of a type's pods, for kinds with the scale subresource: autoscalers find pods by it."""
    if not _KINDS[job.kind].scales:
        return {}
    labels = {JOB: job.name, OPERATOR: KINDS[job.kind].operator, TYPE: type.lower()}
    return {"selector": ",".join(f"{name}={text}" for name, text in labels.items())}


def _condition(one: WorkloadCondition, before: Mapping[str, Any] | None, at: str) -> Json:
    if before is not None and before.get("reason") == one.reason:
        # The end of a job turns ``Running`` off and changes no more of it; all others stay as they are.
        return {**before, "status": one.status}
    is_same = before is not None and before.get("status") == one.status
    since = (before or {}).get("lastTransitionTime") if is_same else None
    return {
        "type": one.type, "status": one.status, "reason": one.reason, "lastUpdateTime": at,
        "lastTransitionTime": since or at, "message": f"{one.reason}, by bursar.io/jobs",
    }  # fmt: skip


def _template(found: Mapping[str, Any], job: Job, slot: Slot) -> Mapping[str, Any]:
    return _replicas(found, job, slot.type).get("template") or {}


def _replicas(found: Mapping[str, Any], job: Job, type: str) -> Mapping[str, Any]:
    specs: Mapping[str, Mapping[str, Any]] = found["spec"][LAYOUTS[job.kind].specs]
    return by_replica_type(job.kind, specs)[type]


def _with_variables(container: Mapping[str, Any], plan: PodPlan) -> Json:
    kept = [one for one in container.get("env") or () if one.get("name") not in plan.environment]
    added: list[Json] = [{"name": name, "value": text} for name, text in plan.environment.items()]
    if any(f"$({POD_IP})" in text for text in plan.environment.values()):
        # A variable must come before its uses.
        source = {"fieldRef": {"fieldPath": "status.podIP"}}
        added.insert(0, {"name": POD_IP, "valueFrom": source})
    return {**container, "env": [*kept, *added]}


def _ports(found: Mapping[str, Any], job: Job, slot: Slot) -> Sequence[Json]:
    """The ports of the training container, with the one for replicas to find each other."""
    layout = LAYOUTS[job.kind]
    containers = (_template(found, job, slot).get("spec") or {}).get("containers") or ()
    trains = (one for one in containers if one.get("name") == layout.container)
    ports = [
        {"name": one.get("name") or f"port-{one['containerPort']}", "port": one["containerPort"]}
        for container in trains
        for one in container.get("ports") or ()
        if one.get("containerPort")
    ]
    if all(one["name"] != layout.port for one in ports):
        ports.append({"name": layout.port, "port": job.rules.port})
    return ports


def reference(found: Mapping[str, Any], job: Job) -> Json:
    """The ownerReference to the job in ``found``, as an object's controller."""
    return {
        "apiVersion": api_version(found), "kind": job.kind,
        "name": job.name, "uid": job.uid, "controller": True,
    }  # fmt: skip
