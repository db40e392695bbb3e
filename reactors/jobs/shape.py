"""The kinds of training jobs, one entry each; the inputs of one pass over a job, and its results.

Source: Kubeflow training-operator v1, release 1.9; docs/jobs.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

from bus.clock import SECOND_US
from bus.events.pods import NATIVE, PLUGINS, VOLCANO
from bus.events.workloads import (
    REPLICA_TYPES,
    ReplicaCounts,
    ReplicaSpec,
    TrainingSpec,
    WorkloadCondition,
)

#: Why pods are deleted of a job past its limits.
LIMIT_REACHED = "limit_reached"
#: Longest time for a decided step to stay unobserved. The operator itself waits as long.
UNSEEN_US = 300 * SECOND_US
#: A larger job gets no pods: this size is always a mistake, and it would fill the memory.
MOST_PODS = 10_000


class TrainingKind(msgspec.Struct, frozen=True):
    """How jobs of one kind are run."""

    kind: str
    #: The value of the label ``operator-name``.
    operator: str
    #: The training container, and the port for replicas to find each other if the template names none.
    container: str
    port: int
    #: The types that alone decide about the job's success, if it has one of them; else ``Worker`` does.
    leaders: tuple[str, ...]
    #: The default restart policy of a replica type.
    restart_policy: str
    #: Where no type leads, worker 0 has the role of the master.
    worker_leads: bool = True
    #: Under the operator's rules workers never decide, and any failed pod ends the job, except under the policy of exit codes.
    is_strict: bool = False

    @property
    def types(self) -> tuple[str, ...]:
        """All types, in the order of the pass."""
        return REPLICA_TYPES[self.kind]


_KINDS = (
    TrainingKind(
        "TFJob", "tfjob-controller", "tensorflow", 2222,
        ("Chief", "Master"), "Never",
    ),
    TrainingKind(
        "PyTorchJob", "pytorchjob-controller", "pytorch", 23456,
        ("Master",), "OnFailure",
    ),
    TrainingKind(
        "XGBoostJob", "xgboostjob-controller", "xgboost", 9999,
        ("Master",), "Never", worker_leads=False, is_strict=True,
    ),
    TrainingKind(
        "PaddleJob", "paddlejob-controller", "paddle", 36543,
        ("Master",), "OnFailure", worker_leads=False,
    ),
    TrainingKind("JAXJob", "jaxjob-controller", "jax", 6666, (), "Never"),
)  # fmt: skip

#: The kinds of PodGroups made for jobs.
GROUPS = frozenset({NATIVE, PLUGINS, VOLCANO})
KINDS: dict[str, TrainingKind] = {one.kind: one for one in _KINDS}

_VOLCANO = "volcano"
#: The reader of PodGroups of Kubernetes' own API. Pods never name a scheduler so, so their own name stays.
_KUBE = "kube-scheduler"

Ownership = Literal["self", "other", "none"]
#: The labels of the kind's pods, below ``training.kubeflow.org/``.
PREFIX = "training.kubeflow.org/"
TYPE, INDEX, JOB, OPERATOR, ROLE = (
    f"{PREFIX}{name}"
    for name in ("replica-type", "replica-index", "job-name", "operator-name", "job-role")
)


class JobStatus(msgspec.Struct, frozen=True):
    """The status of a job. Times are microseconds UTC."""

    conditions: tuple[WorkloadCondition, ...] = ()
    counts: dict[str, ReplicaCounts] = {}
    start_us: int | None = None
    completion_us: int | None = None

    def is_true(self, type: str) -> bool:
        """Whether the condition is listed and True."""
        return any(one.type == type and one.status == "True" for one in self.conditions)

    @property
    def is_finished(self) -> bool:
        """Whether it succeeded or failed."""
        return self.is_true("Succeeded") or self.is_true("Failed")


def selects(kind: str, name: str, labels: Mapping[str, str]) -> bool:
    """Whether these labels are those of a job's pods."""
    return (labels.get(JOB), labels.get(OPERATOR)) == (name, KINDS[kind].operator)


class Job(msgspec.Struct, frozen=True):
    """A training job."""

    uid: str
    kind: str
    namespace: str
    name: str
    spec: TrainingSpec
    status: JobStatus = JobStatus()
    is_deleting: bool = False

    @property
    def rules(self) -> TrainingKind:
        """The entry of its kind."""
        return KINDS[self.kind]

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Whether a pod with these labels is one of this job, and of no job of the same name and another kind."""
        return selects(self.kind, self.name, labels)

    @property
    def types(self) -> list[tuple[str, ReplicaSpec]]:
        """Its replica types in the order of its kind; unknown types come last."""
        order = {name: place for place, name in enumerate(self.rules.types)}
        found = sorted(self.spec.replicas, key=lambda name: (order.get(name, len(order)), name))
        return [(name, self.spec.replicas[name]) for name in found]

    @property
    def total(self) -> int:
        """How many pods it wants."""
        return sum(one.count for one in self.spec.replicas.values())

    @property
    def is_too_large(self) -> bool:
        """Whether it wants more pods than are made."""
        return self.total > MOST_PODS

    @property
    def leader(self) -> str:
        """The type that alone decides about its success; "" = none."""
        return next((name for name in self.rules.leaders if name in self.spec.replicas), "")

    def policy(self, replicas: ReplicaSpec) -> str:
        """The restart policy of one type."""
        return replicas.restart_policy or self.rules.restart_policy


class SeenPod(msgspec.Struct, frozen=True):
    """A pod in the job's namespace. ``type`` and ``index`` are its labels, "" = it has no such label."""

    name: str
    uid: str = ""
    type: str = ""
    index: str = ""
    phase: str = ""
    is_deleting: bool = False
    #: Restarts of its containers.
    restarts: int = 0
    #: Of the training container; None = it did not end.
    exit_code: int | None = None
    owner: Ownership = "self"
    #: Its labels are those of the job.
    is_selected: bool = True
    node: str = ""
    #: The attempt at its slot, by its name; 0 = its name has no attempt.
    attempt: int = 0


class SeenService(msgspec.Struct, frozen=True):
    """A service in the job's namespace."""

    name: str
    type: str = ""
    index: str = ""
    is_deleting: bool = False
    owner: Ownership = "self"
    is_selected: bool = True


class JobExpectations(msgspec.Struct, frozen=True):
    """How many creations and deletions were decided and not seen yet. The operator calls them expectations."""

    creations: int = 0
    deletions: int = 0
    #: The time of the deciding pass; None = the steps never expire.
    since_us: int | None = None

    def raised(self, creations: int = 0, deletions: int = 0) -> JobExpectations:
        """With more steps; fewer for a negative number, after an observation. The time stays."""
        return JobExpectations(
            self.creations + creations, self.deletions + deletions, self.since_us
        )

    def is_settled(self, now_us: int) -> bool:
        """Whether all of them were seen, or are given up."""
        is_seen = self.creations <= 0 and self.deletions <= 0
        return is_seen or (self.since_us is not None and now_us - self.since_us > UNSEEN_US)


def may_look(
    types: Iterable[str], outstanding: Mapping[str, JobExpectations], now_us: int, rules: Rules
) -> bool:
    """Whether a pass over a job with these replica types is due, by its decided and unobserved steps.

    The operator goes on as soon as all pods, or all services, of any one type were observed. Bursar waits for all pods.
    """
    parts = ("pods", "services") if rules.is_v1 else ("pods",)
    keys = [f"{type.lower()}/{part}" for type in types for part in parts]
    settled = [outstanding.get(key, _SETTLED).is_settled(now_us) for key in keys]
    return any(settled) if rules.is_v1 else all(settled)


_SETTLED = JobExpectations()


class SeenPodGroup(msgspec.Struct, frozen=True):
    """A PodGroup as it was seen."""

    phase: str = ""
    queue: str = ""
    uid: str = ""
    least: int | None = None


class GangScheduler(msgspec.Struct, frozen=True):
    """The scheduler that starts pods together. ``priorities``: value of each priority class."""

    scheduler: str
    group: SeenPodGroup | None = None
    priorities: dict[str, int] = {}


def is_volcano(gang: GangScheduler) -> bool:
    """Whether the scheduler is volcano, in any case of letters."""
    return gang.scheduler.lower() == _VOLCANO


def api_of(gang: GangScheduler) -> str:
    """The API of the PodGroups that its scheduler reads."""
    if is_volcano(gang):
        return VOLCANO
    return NATIVE if gang.scheduler == _KUBE else PLUGINS


class SeenJob(msgspec.Struct, frozen=True):
    """The known surroundings of a job at one moment."""

    pods: tuple[SeenPod, ...] = ()
    services: tuple[SeenService, ...] = ()
    #: By ``<type in lower case>/pods`` and ``/services``.
    outstanding: Mapping[str, JobExpectations] = {}
    gang: GangScheduler | None = None
    #: Replaced failed pods.
    replaced: int = 0
    #: Another program makes pods of it.
    is_elsewhere: bool = False
    #: A pod of it was to be deleted before as it was past its limits.
    is_over_limits: bool = False


class Rules(msgspec.Struct, frozen=True):
    """``is_v1``: the rules of the training operator, with its faults (docs/jobs.md).

    ``runs``: the jobs under Bursar, ``marked`` or ``all``; "" = none, an operator runs them.
    """

    is_v1: bool = True
    runs: str = ""


class Slot(msgspec.Struct, frozen=True):
    """The place of one pod of a job."""

    type: str
    index: int
    name: str


class Removal(msgspec.Struct, frozen=True):
    """A pod to delete.

    ``reason``: ``failed_retryable``, ``out_of_range``, ``doubled``, ``finished``, ``suspended`` or ``limit_reached``.
    """

    pod: SeenPod
    reason: str


class GroupStep(msgspec.Struct, frozen=True):
    """The step for a PodGroup. ``spec`` None = delete it; ``is_held``: no pod is made before it starts."""

    #: The operator updates an existing one at every pass; ``keep``: it already has the wanted spec.
    action: Literal["create", "update", "keep", "delete"]
    spec: dict[str, object] | None = None
    is_held: bool = False
    #: Of the existing one; "" = there is none, or it was not observed.
    uid: str = ""


class Timer(msgspec.Struct, frozen=True):
    """When time alone makes the next step due: ``deadline`` or ``ttl``, microseconds from now."""

    name: Literal["deadline", "ttl"]
    after_us: int


class JobPass(msgspec.Struct, kw_only=True):
    """The results of one look at a job."""

    #: The reason to skip the job: ``managed_elsewhere``, ``not_marked``, ``operator_present``, ``deleting``, ``invalid_name``,
    #: ``doubled_type`` or ``outstanding``; ``too_large`` and
    #: ``gang_waits`` skip only missing objects; "" = nothing was skipped.
    skipped: str = ""
    creates: list[Slot] = []
    removals: list[Removal] = []
    service_creates: list[Slot] = []
    #: Names.
    service_removals: list[str] = []
    adopted: list[str] = []
    released: list[str] = []
    group: GroupStep | None = None
    status: JobStatus = JobStatus()
    is_deleted: bool = False
    error: str = ""
    timers: list[Timer] = []
    #: When the pass asks to be repeated, microseconds from now; None = it does not.
    again_us: int | None = None
    #: As the operator words them: type and reason.
    events: list[str] = []
