"""Decisions and their outcomes. A decision is an event in the history; every effect has one.

All decisions of a cluster are one line of events under ``bursar.<cluster>.decision.*.*``, appended with the
expected last sequence of that subject: each depends on all before it, whichever process made it. Outcomes are
another line.

A pass of the scheduler is one event for many pods, and no :class:`Decision`: it takes effect at its place in the
history, in every process alike, so the next pass is decided after it was read. Passes are a line of events of their
own, appended with the expected last sequence of theirs: two processes never assign the same room. Texts shared by
pods stand once in a pass, and pods refer to them by index. Only the pod's own status confirms a binding, without a
further event. A binder reports ``bind.settled`` for an unbound pod, and the pod waits again.

Source: docs/architecture.md; docs/reliability.md; docs/scheduling.md; docs/jobs.md.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import msgspec

from bus.events.constraints import HeldCpus
from bus.events.pods import Owner
from bus.events.vocabulary import Fact
from bus.events.workloads import ReplicaCounts, WorkloadCondition

#: ``done``: also where it was found done already. ``stale``: newer knowledge, or too late. ``gone``: there is no such object
#: any more. ``refused``: it will never be taken. ``shadow``: by now nothing may be done.
Result = Literal["done", "refused", "stale", "gone", "shadow"]


class Target(msgspec.Struct, frozen=True, omit_defaults=True):
    """The one object that a decision is about; a namesake with another uid is another object."""

    kind: str
    namespace: str
    name: str
    uid: str
    #: Where its pods run, for limits per node. "" = nowhere, or unknown.
    node: str = ""


class Decision(Fact, frozen=True, kw_only=True):
    """The common fields of all decisions. Key of the event: ``key``; its id: ``id``.

    ``id`` is derived from reactor, trigger and key, so a repeated decision counts once. The decision's inputs are the
    history up to ``trigger`` and all earlier decisions.
    """

    #: Takes something away from somebody: interlocks and limits hold it.
    is_destructive: ClassVar[bool] = False
    #: A person asked for exactly this: neither pause nor shadow mode hold it.
    is_asked: ClassVar[bool] = False
    #: Several are carried out at once: their targets are disjoint.
    is_independent: ClassVar[bool] = False

    id: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{32}$")]
    reactor: str
    #: Version of the reactor's rules.
    rules: int
    key: str
    trigger: int
    #: The trigger's time, microseconds UTC.
    at_us: int
    #: Digest of the policy.
    policy: str
    is_shadow: bool
    target: Target
    #: Its quota; "" = none.
    quota: str = ""
    #: A stable token.
    reason: str
    #: The numbers behind it, by name with unit.
    numbers: dict[str, int] = {}
    #: Its deadline: its inputs are too old afterwards.
    expires_us: int


class Warn(Decision, frozen=True, kw_only=True):
    """Tell the owner of a notebook that it will be stopped, unless it is used."""

    wire_type: ClassVar[str] = "decision.warn"


class Withdraw(Decision, frozen=True, kw_only=True):
    """Take back a warning."""

    wire_type: ClassVar[str] = "decision.withdraw"


class Cull(Decision, frozen=True, kw_only=True):
    """Stop an idle notebook, so that it can be started again."""

    wire_type: ClassVar[str] = "decision.cull"
    is_destructive: ClassVar[bool] = True


class Evict(Decision, frozen=True, kw_only=True):
    """Evict a pod through the Eviction subresource: for a quota, a preempting pod or a migration. Key: the pod's uid."""

    wire_type: ClassVar[str] = "decision.evict"
    is_destructive: ClassVar[bool] = True

    #: Kind, namespace and name of the workload of the same quota with the freed room; "" = none.
    beneficiary: str = ""


class Restore(Decision, frozen=True, kw_only=True):
    """Give back what a cull stopped. ``key`` is the cull's id."""

    wire_type: ClassVar[str] = "decision.restore"
    is_asked: ClassVar[bool] = True


class RestoreAsked(Fact, frozen=True, kw_only=True):
    """A person wants a cull undone. Key: the decision's id."""

    wire_type: ClassVar[str] = "restore.asked"

    decision: str
    author: str


class NoticeSettled(Fact, frozen=True, kw_only=True):
    """The result of notifying the configured receiver of a warning or a budget phase. Published once for each.

    A failed notification does not withdraw the warning. Key: the decision's id; of a budget, the id of its phase's event.
    """

    wire_type: ClassVar[str] = "notice.settled"

    decision: str
    reactor: str
    result: Literal["told", "failed"]
    #: Why not, a token: ``http_500``, ``redirected``, ``timed_out``, ``no_connection``.
    message: str = ""
    #: 0 = no receiver is configured.
    attempts: int = 1


class EffectSettled(Fact, frozen=True, kw_only=True):
    """The outcome of a decision, published once for each outside shadow mode. Key: the decision's id."""

    wire_type: ClassVar[str] = "effect.settled"

    decision: str
    reactor: str
    result: Result
    #: A token or the API server's words.
    message: str = ""


# --- steps of training jobs ---------------------------------------------------------------------------


class CreateReplica(Decision, frozen=True, kw_only=True):
    """Make the pod of one slot of a job, and its service. Target: the job."""

    wire_type: ClassVar[str] = "decision.create_replica"
    is_independent: ClassVar[bool] = True

    #: Name of the pod; in shadow of its service, too.
    replica: str
    #: Its type as the job writes it.
    type: str
    #: Attempts at its slot with this pod, as far as observed; its name ends in it. 0 = in shadow.
    attempt: int = 0
    #: The scheduler for the common start of the job's pods by its PodGroup; "" = it has none.
    gang_scheduler: str = ""


class DeleteReplica(Decision, frozen=True, kw_only=True):
    """Delete a pod of a job, and its service where it is not replaced. Target: the pod."""

    wire_type: ClassVar[str] = "decision.delete_replica"
    is_independent: ClassVar[bool] = True

    #: The job's uid.
    job: str
    #: The pod's type, in lower case.
    type: str
    #: The pod's attempt at its slot, from its name; 0 = its name is its slot's, as is that of its service.
    attempt: int = 0


class AdoptReplica(Decision, frozen=True, kw_only=True):
    """Have a job control a pod or service that carries its labels and that nobody controls. Target: the pod or service."""

    wire_type: ClassVar[str] = "decision.adopt_replica"
    is_independent: ClassVar[bool] = True

    #: The job.
    owner: Owner


class ReleaseReplica(Decision, frozen=True, kw_only=True):
    """Have a job control a pod no more that lost its labels. Target: the pod."""

    wire_type: ClassVar[str] = "decision.release_replica"
    is_independent: ClassVar[bool] = True

    #: The job.
    owner: Owner


class KeepPodGroup(Decision, frozen=True, kw_only=True):
    """Make the PodGroup of a job whose pods start together, or have it say what the job asks for now. Target: the job."""

    wire_type: ClassVar[str] = "decision.keep_pod_group"
    is_independent: ClassVar[bool] = True

    #: Its API: ``NATIVE``, ``PLUGINS`` or ``VOLCANO`` of :mod:`bus.events.pods`.
    api: str
    #: So many pods start together.
    least: int
    #: Their requests, thousandths of each unit.
    requests: dict[str, int] = {}
    #: Where it is volcano's.
    queue: str = ""
    priority_class: str = ""
    #: How long they wait for each other; None = not stated.
    wait_seconds: int | None = None
    #: Its uid where it is there.
    group: str = ""


class EndPodGroup(Decision, frozen=True, kw_only=True):
    """Delete the PodGroup of a job that ended, or that is suspended. Target: the PodGroup."""

    wire_type: ClassVar[str] = "decision.end_pod_group"
    is_independent: ClassVar[bool] = True

    #: The job's uid.
    job: str


class ReportJob(Decision, frozen=True, kw_only=True):
    """Write a job's status. Target: the job."""

    wire_type: ClassVar[str] = "decision.report_job"
    is_independent: ClassVar[bool] = True

    conditions: tuple[WorkloadCondition, ...] = ()
    counts: dict[str, ReplicaCounts] = {}
    #: Its start and its end, microseconds UTC.
    start_us: int | None = None
    completion_us: int | None = None
    #: The training operator's Kubernetes Events of this pass: type and reason, each once.
    events: tuple[str, ...] = ()


class DeleteJob(Decision, frozen=True, kw_only=True):
    """Delete a finished job whose time is over. Target: the job."""

    wire_type: ClassVar[str] = "decision.delete_job"
    is_independent: ClassVar[bool] = True

    #: As those of :class:`ReportJob`.
    events: tuple[str, ...] = ()


# --- passes of the scheduler -------------------------------------------------------------------------

#: ``refused``: the API server takes no such bind. ``lost``: the pod is not bound, and nobody knows why. ``gone``: there is no
#: such pod any more. ``stale``: newer knowledge is against it. ``shadow``: by now nothing may be bound.
BindResult = Literal["refused", "lost", "gone", "stale", "shadow"]


class Refusal(msgspec.Struct, frozen=True, omit_defaults=True):
    """The reasons for pods without a node, or without another one."""

    #: By plugin and reason: nodes with this plugin as the first to refuse. A node may have several reasons.
    nodes: dict[str, dict[str, int]] = {}
    #: Why no node was looked at; "" = they were.
    reason: str = ""


class TriedPod(msgspec.Struct, frozen=True, array_like=True):
    """The decision of a pass about one pod."""

    uid: str
    namespace: str
    name: str
    #: Index of the pass's ``nodes``; -1 = no node takes it, and it waits.
    node: int
    #: How many nodes fit.
    feasible: int
    #: Index of the pass's ``refusals``; -1 = no node was refused.
    refused: int
    #: The best nodes, the chosen one first: pairs of an index of ``nodes`` and an index of ``scores``.
    top: tuple[int, ...] = ()
    #: The cards allocated on its node; empty = any.
    cards: tuple[int, ...] = ()


class Victim(msgspec.Struct, frozen=True, array_like=True):
    """A pod that has to go so that a more important one gets its room."""

    uid: str
    namespace: str
    name: str
    priority: int


class Nomination(msgspec.Struct, frozen=True, array_like=True):
    """A node for a pod without room anywhere: the pod fits once the ``victims`` are gone. Victims: most important first."""

    uid: str
    #: Index of the pass's ``nodes``.
    node: int
    victims: tuple[Victim, ...]


class SchedulingPassed(Fact, frozen=True, kw_only=True):
    """The scheduler tried pods, the next one first, each after those before it. Key: the profile.

    It was decided on the history up to ``after``. A pass that is too large for one event has several parts, stored together.
    """

    wire_type: ClassVar[str] = "scheduling.passed"

    profile: str
    #: The newest known event, and the newest pass among them (0 = none).
    after: int
    assumed: int
    #: Number of this part among the events of this moment.
    part: int = 0
    #: Version of the scheduler's rules.
    rules: int
    #: Digest of the policy.
    policy: str
    #: Recorded, and never bound.
    is_shadow: bool = False
    #: The time of the event ``after``, microseconds UTC.
    at_us: int
    #: How many nodes there were.
    count: int = 0
    nodes: tuple[str, ...] = ()
    #: The scoring plugins, and the weighted scores of one node for one pod, in their order.
    plugins: tuple[str, ...] = ()
    scores: tuple[tuple[int, ...], ...] = ()
    refusals: tuple[Refusal, ...] = ()
    pods: tuple[TriedPod, ...] = ()
    #: Pods tried again and refused for the same reasons as before, by their numbers in the queue.
    again: tuple[int, ...] = ()
    #: Pods in need of evictions of less important ones; they are among the waiting pods.
    nominated: tuple[Nomination, ...] = ()
    #: The pods' CPUs on their nodes, and parts of NUMA nodes, by uid.
    cpus: dict[str, HeldCpus] = {}


class FailedBind(msgspec.Struct, frozen=True, array_like=True):
    """A pod that did not get its node."""

    uid: str
    #: The sequence of its pass.
    passed: int
    result: BindResult
    #: A token or the API server's words.
    message: str = ""
    #: The id of that pass.
    decision: str = ""


class BindSettled(Fact, frozen=True, kw_only=True):
    """These pods were not bound as a pass decided: their room is free again, and they wait. Key: the profile."""

    wire_type: ClassVar[str] = "bind.settled"

    failed: tuple[FailedBind, ...]
