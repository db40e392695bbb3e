"""Facts about workloads: the links of the owner chain from a pod up to its user's object, and the demand of each.

A training job also has the description of its run, and its controller's last status: no template, command,
environment or volume is among it.

Source: Kubernetes API reference, apps/v1 and batch/v1; Kubeflow training-operator v1, ``apis/kubeflow.org/v1``;
docs/accounting.md (workload); docs/quotas.md; docs/jobs.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

import msgspec

from bus.events.pods import Owner
from bus.events.runtimes import RuntimeUse
from bus.events.vocabulary import Fact, Upcast

#: The note of a workload with an unreadable demand: it exists, and its demand is unknown.
UNREADABLE = "demand_unreadable"
#: The note of a workload with another controller: it makes no pods in this cluster.
MANAGED_ELSEWHERE = "managed_elsewhere"

Spec = TypeVar("Spec")

#: The replica types of each kind of training job, in the operator's order of evaluation.
REPLICA_TYPES = {
    "TFJob": ("Chief", "Evaluator", "Master", "PS", "Worker"),
    "PyTorchJob": ("Master", "Worker"),
    "XGBoostJob": ("Master", "Worker"),
    "PaddleJob": ("Master", "Worker"),
    "JAXJob": ("Worker",),
}


def by_replica_type(kind: str, specs: Mapping[str, Spec | None]) -> dict[str, Spec]:
    """The specs by the names of the kind's types, written in any case. Nulls are left out, doubled types keep their names.

    The operator renames them so as a default. Of doubled types it takes one at random.
    """
    stated = {name: one for name, one in specs.items() if one is not None}
    written = [name.casefold() for name in stated]
    names = {one.casefold(): one for one in REPLICA_TYPES.get(kind, ())}
    return {
        names.get(name.casefold(), name) if written.count(name.casefold()) == 1 else name: one
        for name, one in sorted(stated.items())
    }


class ReplicaSpec(msgspec.Struct, frozen=True, omit_defaults=True):
    """The pods of one type of a job: their number, restart policies and requests."""

    count: int = 1
    #: ``Always``, ``OnFailure``, ``Never`` or ``ExitCode``; "" = not stated.
    restart_policy: str = ""
    #: The pod template's own value.
    template_restart_policy: str = ""
    scheduler_name: str = ""
    priority_class: str = ""
    #: The port between its replicas; 0 = not stated.
    port: int = 0
    #: One pod's requests, thousandths of each unit.
    requests: dict[str, int] = {}


class ElasticPolicy(msgspec.Struct, frozen=True, omit_defaults=True):
    """``elasticPolicy`` of a PyTorchJob."""

    min_replicas: int | None = None
    max_replicas: int | None = None
    max_restarts: int | None = None
    rendezvous_backend: str = ""
    rendezvous_host: str = ""
    rendezvous_port: int | None = None
    rendezvous_id: str = ""
    #: Whether it states metrics: by them the operator makes a HorizontalPodAutoscaler. None = not recorded.
    has_metrics: bool | None = None


class GangSpec(msgspec.Struct, frozen=True, omit_defaults=True):
    """``schedulingPolicy``: how the pods start together."""

    min_available: int | None = None
    queue: str = ""
    #: Thousandths of each unit; None = the sum of the pods.
    min_resources: dict[str, int] | None = None
    priority_class: str = ""
    timeout_s: int | None = None


class WorkloadCondition(msgspec.Struct, frozen=True):
    """An entry of ``status.conditions``."""

    type: str
    status: str
    reason: str = ""


class ReplicaCounts(msgspec.Struct, frozen=True, omit_defaults=True):
    """Pods of one type by how they are."""

    active: int = 0
    succeeded: int = 0
    failed: int = 0


class TrainingSpec(msgspec.Struct, frozen=True, omit_defaults=True):
    """The run of a job: replicas, policies and limits.

    ``replicas`` by type, as the kind writes the type; before that rule, as its user did.
    """

    replicas: dict[str, ReplicaSpec] = {}
    #: ``All``, ``Running`` or ``None``; "" = not stated.
    clean_pod_policy: str = ""
    ttl_s: int | None = None
    deadline_s: int | None = None
    backoff_limit: int | None = None
    suspend: bool = False
    success_policy: str = ""
    #: The workers of a TFJob may come and go.
    is_dynamic: bool = False
    #: Its responsible controller; None = not stated.
    managed_by: str | None = None
    #: Processes of each pod, as a PyTorchJob writes them.
    processes: str = ""
    elastic: ElasticPolicy | None = None
    gang: GangSpec | None = None


class Training(msgspec.Struct, frozen=True, omit_defaults=True):
    """A job's spec, and its status as its controller wrote it. Stamps are RFC 3339."""

    spec: TrainingSpec
    is_deleting: bool = False
    conditions: tuple[WorkloadCondition, ...] = ()
    counts: dict[str, ReplicaCounts] = {}
    start: str | None = None
    completion: str | None = None


def _with_fewer_fields(body: dict[str, Any]) -> dict[str, Any]:
    return body


class WorkloadObserved(Fact, frozen=True, kw_only=True):
    """An object of a governed kind was observed, a Deployment or a Job, say. Key: its uid.

    :func:`bus.kube.kinds.asked` reads the fields from ``demand`` to ``replicas``. Children of a controller have them, too:
    whether an object is charged depends on its whole chain of owners. Version 1 has none of these fields. Version 2 lacks
    the fields of waiting workloads: ``wanted``, ``priority_class`` and ``held``.
    """

    wire_type: ClassVar[str] = "workload.observed"
    version: ClassVar[int] = 3
    upcasts: ClassVar[Mapping[int, Upcast]] = {1: _with_fewer_fields, 2: _with_fewer_fields}

    uid: str
    kind: str
    namespace: str
    name: str
    resource_version: str
    created: str | None = None
    owner: Owner | None = None
    #: Its own, by the label policy; and those of its quota, its own or else those of its templates.
    labels: dict[str, str] = {}
    #: Its own, those of Bursar and the stamps of Kubeflow's culler: such as its user's wishes about culling.
    annotations: dict[str, str] = {}
    #: ``requests.<resource>`` and ``limits.<resource>`` over all pods: cpu in milli, everything else in whole units.
    #: None = not stated, or unreadable (see ``notes``).
    demand: dict[str, int] | None = None
    pods: int = 0
    deadline_s: int | None = None
    #: Held back, stopped or ended: it asks for nothing now.
    suspended: bool = False
    #: Demand of one pod, and number of pods, of the set with the scale subresource; None without one.
    per_replica: dict[str, int] | None = None
    replicas: int | None = None
    #: While it is suspended and has not ended: its demand once it runs.
    wanted: dict[str, int] = {}
    #: Of its first pod template with one.
    priority_class: str = ""
    #: It is suspended because it waits in a queue, not by its user.
    held: bool = False
    #: As :class:`bus.kube.kinds.Ask` has it: containers without a limit of ``limits.<resource>``, or without a
    #: request either.
    unstated: dict[str, tuple[str, ...]] = {}
    #: Its deletion was asked for: it waits for its finalizers, and its controller makes nothing more.
    is_terminating: bool = False
    #: The description of a training job's run, and its controller's last status; None for other kinds, and for an
    #: unreadable one.
    training: Training | None = None
    #: Of a TrainJob: its runtime; its demand is the runtime's name.
    runtime: RuntimeUse | None = None
    #: ``metadata.generation`` (it changes with the spec); 0 = not stated.
    generation: int = 0
    notes: tuple[str, ...] = ()


class WorkloadVanished(Fact, frozen=True, kw_only=True):
    """A workload was deleted. Key: its uid."""

    wire_type: ClassVar[str] = "workload.vanished"

    uid: str
    kind: str
    namespace: str
    name: str
    resource_version: str
