"""A training job's own description of its run, for its fact. Pure.

The API server checks these objects by the schema of the installed operator, so a field of another type is possible:
then nothing is published of the whole, and the fact has a note.

Source: Kubeflow training-operator v1, ``apis/kubeflow.org/v1``; docs/jobs.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from bus.amounts import observed_quantity
from bus.errors import QuantityError
from bus.events.workloads import (
    ElasticPolicy,
    GangSpec,
    ReplicaCounts,
    ReplicaSpec,
    Training,
    TrainingSpec,
    WorkloadCondition,
    by_replica_type,
)
from bus.kube.watch import records
from bus.kube.watch.records import Metadata

#: The note of a job with an unreadable description.
UNREADABLE = "training_unreadable"
#: Most replica types, conditions and resource names in one fact, and longest text of one.
MOST = 16
LONGEST = 253
_MILLI = 10**6

Count = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
Seconds = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**40)]
Text = Annotated[str, msgspec.Meta(max_length=LONGEST)]
Quantities = Annotated[dict[Text, str | int | float | None], msgspec.Meta(max_length=MOST)]


class Layout(msgspec.Struct, frozen=True):
    """The fields of one kind of job for replicas, training container and port."""

    specs: str
    container: str
    port: str


#: The kinds with this description.
LAYOUTS = {
    "TFJob": Layout("tfReplicaSpecs", "tensorflow", "tfjob-port"),
    "PyTorchJob": Layout("pytorchReplicaSpecs", "pytorch", "pytorchjob-port"),
    "XGBoostJob": Layout("xgbReplicaSpecs", "xgboost", "xgboostjob-port"),
    "PaddleJob": Layout("paddleReplicaSpecs", "paddle", "master"),
    "JAXJob": Layout("jaxReplicaSpecs", "jax", "jaxjob-port"),
}


class _Camel(msgspec.Struct, rename="camel"):
    pass


class _Resources(_Camel):
    requests: Quantities | None = None
    limits: Quantities | None = None


class _Port(_Camel):
    name: str | None = None
    container_port: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 0


class _Container(_Camel):
    name: str | None = None
    ports: list[_Port] | None = None
    resources: _Resources | None = None


class _PodSpec(_Camel):
    containers: list[_Container] | None = None
    restart_policy: Text | None = None
    scheduler_name: Text | None = None
    priority_class_name: Text | None = None


class _Template(_Camel):
    spec: _PodSpec | None = None


class _Replicas(_Camel):
    replicas: Count | None = None
    restart_policy: Text | None = None
    template: _Template | None = None


class _SchedulingPolicy(_Camel):
    min_available: Count | None = None
    queue: Text | None = None
    min_resources: Quantities | None = None
    priority_class: Text | None = None
    schedule_timeout_seconds: Seconds | None = None


class _RunPolicy(_Camel):
    clean_pod_policy: Text | None = None
    ttl_seconds_after_finished: Seconds | None = None
    active_deadline_seconds: Seconds | None = None
    backoff_limit: Seconds | None = None
    suspend: bool | None = None
    managed_by: Text | None = None
    scheduling_policy: _SchedulingPolicy | None = None


class _ElasticPolicy(_Camel):
    min_replicas: Count | None = None
    max_replicas: Count | None = None
    max_restarts: Count | None = None
    rdzv_backend: Text | None = None
    rdzv_host: Text | None = None
    rdzv_port: Count | None = None
    rdzv_id: Text | None = None
    metrics: Any = None


class _Spec(_Camel):
    run_policy: _RunPolicy | None = None
    success_policy: Text | None = None
    enable_dynamic_worker: bool | None = None
    nproc_per_node: Text | None = None
    elastic_policy: _ElasticPolicy | None = None


class _Condition(_Camel):
    type: Text = ""
    status: Text = ""
    reason: Text | None = None


class _Counts(_Camel):
    active: Count | None = None
    succeeded: Count | None = None
    failed: Count | None = None


class _Status(_Camel):
    conditions: Annotated[list[_Condition], msgspec.Meta(max_length=MOST)] | None = None
    replica_statuses: dict[Text, _Counts | None] | None = None
    start_time: Text | None = None
    completion_time: Text | None = None


_ReplicaSpecs = Annotated[dict[Text, _Replicas | None], msgspec.Meta(max_length=MOST)]


def training_of(kind: str, metadata: Metadata, spec: Any, status: Any) -> Training | None:
    """The description of a job of ``kind``; None for another kind, and for an unreadable job."""
    layout = LAYOUTS.get(kind)
    if layout is None or not isinstance(spec, Mapping):
        return None
    try:
        return _training(kind, layout, metadata, spec, status)
    except (msgspec.ValidationError, QuantityError):
        return None


def _training(
    kind: str, layout: Layout, metadata: Metadata, spec: Mapping[str, Any], status: Any
) -> Training:
    reported = msgspec.convert(status or {}, _Status)
    replicas = msgspec.convert(spec.get(layout.specs) or {}, _ReplicaSpecs)
    counts = list((reported.replica_statuses or {}).items())[:MOST]
    return Training(
        _spec(msgspec.convert(spec, _Spec), layout, by_replica_type(kind, replicas)),
        metadata.deletion_timestamp is not None,
        tuple(
            WorkloadCondition(one.type, one.status, one.reason or "")
            for one in reported.conditions or ()
        ),
        {
            type: ReplicaCounts(one.active or 0, one.succeeded or 0, one.failed or 0)
            for type, one in counts
            if one is not None
        },
        records.stamp(reported.start_time),
        records.stamp(reported.completion_time),
    )


def _spec(spec: _Spec, layout: Layout, replicas: Mapping[str, _Replicas]) -> TrainingSpec:
    run, elastic = spec.run_policy or _RunPolicy(), spec.elastic_policy
    return TrainingSpec(
        {type: _replicas(one, layout) for type, one in sorted(replicas.items())},
        run.clean_pod_policy or "",
        run.ttl_seconds_after_finished,
        run.active_deadline_seconds,
        run.backoff_limit,
        bool(run.suspend),
        spec.success_policy or "",
        bool(spec.enable_dynamic_worker),
        run.managed_by,
        spec.nproc_per_node or "",
        _elastic(elastic) if elastic is not None else None,
        _gang(run.scheduling_policy) if run.scheduling_policy is not None else None,
    )


def _elastic(policy: _ElasticPolicy) -> ElasticPolicy:
    return ElasticPolicy(
        policy.min_replicas, policy.max_replicas, policy.max_restarts, policy.rdzv_backend or "",
        policy.rdzv_host or "", policy.rdzv_port, policy.rdzv_id or "",
        policy.metrics is not None,
    )  # fmt: skip


def _gang(policy: _SchedulingPolicy) -> GangSpec:
    return GangSpec(
        policy.min_available,
        policy.queue or "",
        None if policy.min_resources is None else _milli(policy.min_resources),
        policy.priority_class or "",
        policy.schedule_timeout_seconds,
    )


def _replicas(one: _Replicas, layout: Layout) -> ReplicaSpec:
    pod = (one.template and one.template.spec) or _PodSpec()
    port, requests = 0, dict[str, int]()
    for container in pod.containers or ():
        resources = container.resources or _Resources()
        for name, milli in _milli(resources.requests or resources.limits or {}).items():
            requests[name] = requests.get(name, 0) + milli
        if container.name == layout.container:
            named = (
                found.container_port for found in container.ports or () if found.name == layout.port
            )
            port = next(named, 0)
    return ReplicaSpec(
        1 if one.replicas is None else one.replicas, one.restart_policy or "", pod.restart_policy or "",
        pod.scheduler_name or "", pod.priority_class_name or "", port, requests,
    )  # fmt: skip


def _milli(written: Mapping[str, str | int | float | None]) -> dict[str, int]:
    """Thousandths of each unit, rounded up."""
    return {
        name: -(-observed_quantity(str(text)) // _MILLI)
        for name, text in sorted(written.items())
        if text is not None
    }
