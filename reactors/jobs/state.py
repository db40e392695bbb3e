"""What is known of training jobs beside the state of the cluster: their specs, and the steps that were decided and not seen yet.

A decided step is outstanding until the cluster shows it, so it is not decided twice, and no counter has to be kept right: a pod
that appears is the one that was asked for if it has its name and its job's uid. A step that is not seen for
:data:`UNSEEN_US` is missed, and is decided again once the job's object changes.

How far the steps that were decided are those that the operator takes:

- ``agreed``: the cluster showed a step after it was decided.
- ``missed``: it did not, for :data:`UNSEEN_US`.
- ``unforeseen``: the cluster showed a step that nobody had decided.

Source: docs/jobs.md; docs/architecture.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

import msgspec

from bus.clock import SECOND_US, parse_stamp
from bus.envelope import Event
from bus.errors import TimestampError
from bus.events.clock import ClockTicked
from bus.events.decisions import CreateReplica, Decision, DeleteJob, DeleteReplica, ReportJob
from bus.events.observations import ObjectsListed
from bus.events.pods import PodsListed, PodState
from bus.events.policies import Mode, PolicyChanged
from bus.events.vocabulary import Fact
from bus.events.workloads import Condition, Training, WorkloadObserved, WorkloadVanished
from projections.cluster import Change, ClusterState, Pod, Workload
from projections.engine.parts import Part
from projections.quota_trees.forest import QuotaTrees
from reactors.jobs import NAME
from reactors.jobs.shape import (
    INDEX,
    JOB,
    KINDS,
    TYPE,
    Gang,
    Group,
    Job,
    Outstanding,
    Seen,
    SeenPod,
    Status,
)

#: So long a step may be unseen. The operator itself waits as long for what it asked for.
UNSEEN_US = 300 * SECOND_US
#: Most reports of one job that may be on their way.
MOST_REPORTS = 8
#: Most steps that are named.
MOST = 200

Agreement = Literal["agreed", "missed", "unforeseen"]


class Difference(msgspec.Struct, frozen=True):
    """A step on which operator and Bursar differ. ``step``: ``create``, ``delete``, ``report`` or ``delete_job``."""

    at_us: int
    namespace: str
    job: str
    step: str
    #: The pod, or the conditions.
    what: str
    result: Agreement


class SavedAgreements(msgspec.Struct):
    """What a snapshot holds of them."""

    counts: dict[tuple[str, str], int]
    differences: list[Difference]


class Agreements(Part):
    """How many steps agreed, by step and result; and the newest that did not."""

    Saved = SavedAgreements

    def __init__(self) -> None:
        self.counts: dict[tuple[str, str], int] = {}
        self.differences: list[Difference] = []

    def agreed(self, step: str) -> None:
        """A decided step was seen."""
        self._count(step, "agreed")

    def differs(self, difference: Difference) -> None:
        """A step was not seen, or not decided."""
        self._count(difference.step, difference.result)
        self.differences.append(difference)
        del self.differences[:-MOST]

    def _count(self, step: str, result: Agreement) -> None:
        self.counts[step, result] = self.counts.get((step, result), 0) + 1


CREATE, DELETE, REPORT, DELETE_JOB = "create", "delete", "report", "delete_job"


class Step(msgspec.Struct, frozen=True):
    """A decided step that was not seen yet. ``name``: the pod, "" = the job itself."""

    step: str
    name: str
    #: The replica type in lower case.
    type: str
    at_us: int
    is_missed: bool = False
    #: Of a report, what it says, and what reports before it said that were not seen either, the newest first.
    status: Status | None = None
    earlier: tuple[Status, ...] = ()


class TrackedJob(msgspec.Struct):
    """A training job. ``steps`` by ``create/<pod>``, ``delete/<uid>``, ``report`` and ``delete_job``."""

    job: Job
    #: When it was seen first.
    since_us: int
    steps: dict[str, Step] = {}
    #: Failed pods that were replaced.
    replaced: int = 0

    @property
    def told(self) -> Job:
        """The job with the status that was decided last, if that was not seen yet."""
        report = self.steps.get(REPORT)
        if report is None or report.status is None or report.is_missed:
            return self.job
        return msgspec.structs.replace(self.job, status=report.status)


class PodEnd(msgspec.Struct, frozen=True):
    """What the state of the cluster does not hold of a job's pod."""

    exits: dict[str, int]
    restarts: int


class SavedJobs(msgspec.Struct):
    """What a snapshot holds of training jobs."""

    jobs: dict[str, TrackedJob]
    ends: dict[str, PodEnd]
    mode: Mode
    gang_scheduler: str
    since_us: int
    agreements: SavedAgreements


class JobsState(Part):
    """Kept by :class:`reactors.engine.contract.State`. ``jobs`` by uid, ``ends`` by the pod's uid."""

    Saved = SavedJobs
    derived = frozenset({"state", "touched"})
    reads: ClassVar[tuple[type[Fact], ...]] = (
        PodState, PodsListed, ObjectsListed, WorkloadObserved, WorkloadVanished, ClockTicked,
        PolicyChanged, CreateReplica, DeleteReplica, ReportJob, DeleteJob,
    )  # fmt: skip

    def __init__(self, state: ClusterState, _: QuotaTrees) -> None:
        self.state = state
        self.jobs: dict[str, TrackedJob] = {}
        self.ends: dict[str, PodEnd] = {}
        self.mode: Mode = "off"
        self.gang_scheduler = ""
        #: When the policy in force began.
        self.since_us = 0
        self.agreements = Agreements()
        #: The jobs about which the newest event was.
        self.touched: set[str] = set()

    def take(self, fact: Fact, event: Event) -> None:
        """Fold one event."""
        self.touched = set()
        for change in self.state.changes(event):
            if change.kind == Pod.kind:
                self._pod(change.before, change.after, fact, event.time_us)
            elif change.kind in KINDS:
                self._workload(change, fact, event.time_us)
        if isinstance(fact, ClockTicked):
            self._expire(event.time_us)
        elif isinstance(fact, PolicyChanged) and fact.reactor == NAME:
            self._policy(fact, event.time_us)
        elif isinstance(fact, Decision) and fact.reactor == NAME:
            self._decided(fact)

    # what was seen

    def _workload(self, change: Change, fact: Fact, at_us: int) -> None:
        before = self.jobs.get(change.uid)
        if not isinstance(change.after, Workload):
            if before is not None and DELETE_JOB in before.steps:
                self.agreements.agreed(DELETE_JOB)
            self.jobs.pop(change.uid, None)
            return
        if not isinstance(fact, WorkloadObserved) or fact.uid != change.uid:
            return
        if fact.resource_version != change.after.version:
            return
        self.touched.add(fact.uid)
        if fact.training is None:
            self.jobs.pop(fact.uid, None)
            return
        job = _job(fact, fact.training)
        if before is None:
            self.jobs[fact.uid] = TrackedJob(job, at_us)
            return
        old, before.job = before.job.status, job
        self._status_seen(before, old, at_us)
        before.steps = {key: one for key, one in before.steps.items() if not one.is_missed}

    def _status_seen(self, tracked: TrackedJob, old: Status, at_us: int) -> None:
        """Compare what the operator wrote with what was decided."""
        status, report = tracked.job.status, tracked.steps.get(REPORT)
        told = report.status if report is not None else None
        if report is not None and told is not None:
            if is_same(told, status):
                del tracked.steps[REPORT]
        if _said(status) == _said(old) or self.mode == "off":
            return
        # The pods may show a later step before the object shows an earlier one.
        on_their_way = (told, *report.earlier) if report is not None and told is not None else ()
        if any(_said(one) == _said(status) for one in on_their_way):
            self.agreements.agreed(REPORT)
        else:
            self._differs(tracked, REPORT, _text(status.conditions), "unforeseen", at_us)
            tracked.steps.pop(REPORT, None)

    def _pod(self, before: object, after: object, fact: Fact, at_us: int) -> None:
        pod = after if isinstance(after, Pod) else before
        if not isinstance(pod, Pod) or pod.owner is None or pod.owner.kind not in KINDS:
            return
        tracked = self.jobs.get(pod.owner.uid)
        if tracked is not None and not _is_of(pod, tracked.job):
            return
        self.touched.add(pod.owner.uid)
        if not isinstance(after, Pod):
            self.ends.pop(pod.uid, None)
        elif (
            isinstance(fact, PodState)
            and fact.uid == pod.uid
            and fact.resource_version == pod.version
        ):
            self.ends[pod.uid] = PodEnd(fact.exits, fact.restarts)
        if tracked is None:
            return
        if before is None:
            self._appeared(tracked, pod, fact, at_us)
        if not isinstance(after, Pod) or after.is_terminating:
            step = tracked.steps.pop(f"{DELETE}/{pod.uid}", None)
            if step is not None:
                self.agreements.agreed(DELETE)
                tracked.replaced += pod.phase == "Failed"

    def _appeared(self, tracked: TrackedJob, pod: Pod, fact: Fact, at_us: int) -> None:
        step = tracked.steps.pop(f"{CREATE}/{pod.name}", None)
        if step is not None:
            self.agreements.agreed(CREATE)
        elif self.mode != "off" and not self.gang_scheduler and isinstance(fact, PodState):
            # What was there before anybody could decide proves nothing.
            if (_us(fact.created) or 0) > max(tracked.since_us, self.since_us):
                self._differs(tracked, CREATE, pod.name, "unforeseen", at_us)

    # what was decided

    def _decided(self, decision: Decision) -> None:
        target = decision.target
        uid = decision.job if isinstance(decision, DeleteReplica) else target.uid
        tracked = self.jobs.get(uid)
        if tracked is None:
            return
        if isinstance(decision, CreateReplica):
            step = Step(CREATE, decision.replica, decision.type.lower(), decision.at_us)
            tracked.steps[f"{CREATE}/{decision.replica}"] = step
        elif isinstance(decision, DeleteReplica):
            step = Step(DELETE, target.name, decision.type, decision.at_us)
            tracked.steps[f"{DELETE}/{target.uid}"] = step
        elif isinstance(decision, ReportJob):
            tracked.steps[REPORT] = _reported(decision, tracked.steps.get(REPORT))
        elif isinstance(decision, DeleteJob):
            tracked.steps[DELETE_JOB] = Step(DELETE_JOB, "", "", decision.at_us)

    def _expire(self, now_us: int) -> None:
        for tracked in self.jobs.values():
            for key, one in tracked.steps.items():
                if one.is_missed or now_us - one.at_us < UNSEEN_US:
                    continue
                tracked.steps[key] = msgspec.structs.replace(one, is_missed=True)
                what = one.name
                if one.status is not None:
                    what = _text(one.status.conditions)
                    if _said(one.status) == _said(tracked.job.status):
                        continue
                self._differs(tracked, one.step, what, "missed", now_us)

    def _policy(self, fact: PolicyChanged, at_us: int) -> None:
        self.mode, self.since_us = fact.mode, at_us
        named = fact.policy.get("gang_scheduler")
        self.gang_scheduler = named if isinstance(named, str) else ""
        for tracked in self.jobs.values():
            tracked.steps.clear()

    def _differs(
        self, tracked: TrackedJob, step: str, what: str, result: Agreement, at_us: int
    ) -> None:
        job = tracked.job
        self.agreements.differs(Difference(at_us, job.namespace, job.name, step, what, result))

    # questions

    def seen(self, uid: str) -> Seen:
        """What is known around a job. Its services and its PodGroup are not watched: a group whose job has pods has begun."""
        tracked = self.jobs[uid]
        pods = tuple(
            self._seen_pod(pod, tracked.job)
            for one in sorted(self.state.index.owned[uid])
            if (pod := self.state.pods.get(one)) is not None and _is_of(pod, tracked.job)
        )
        gang = None
        if self.gang_scheduler:
            gang = Gang(self.gang_scheduler, Group("Running") if pods else None)
        return Seen(pods, (), _outstanding(tracked.steps), gang, tracked.replaced)

    def _seen_pod(self, pod: Pod, job: Job) -> SeenPod:
        end = self.ends.get(pod.uid)
        return SeenPod(
            pod.name, pod.uid, pod.labels.get(TYPE, ""), pod.labels.get(INDEX, ""), pod.phase,
            pod.is_terminating, end.restarts if end else 0,
            end.exits.get(job.rules.container) if end else None,
            is_selected=pod.labels.get(JOB) == job.name, node=pod.node,
        )  # fmt: skip


def _is_of(pod: Pod, job: Job) -> bool:
    """Whether a pod that names a job as its controller may be the job's: an owner of another namespace is none."""
    owner = pod.owner
    return owner is not None and (pod.namespace, owner.kind) == (job.namespace, job.kind)


def is_same(one: Status, other: Status) -> bool:
    """Whether two statuses say the same, but for times."""
    return (one.conditions, one.counts) == (other.conditions, other.counts)


def _reported(decision: ReportJob, before: Step | None) -> Step:
    status = Status(decision.conditions, decision.counts, decision.start_us, decision.completion_us)
    earlier: tuple[Status, ...] = ()
    if before is not None and before.status is not None and not before.is_missed:
        earlier = (before.status, *before.earlier)[:MOST_REPORTS]
    return Step(REPORT, "", "", decision.at_us, status=status, earlier=earlier)


def _outstanding(steps: Mapping[str, Step]) -> dict[str, Outstanding]:
    """By type. Services are not watched; they are there at once, so nobody waits for one."""
    found: dict[str, Outstanding] = {}
    for one in steps.values():
        if one.is_missed or one.step not in (CREATE, DELETE):
            continue
        key = f"{one.type}/pods"
        known = found.get(key, Outstanding())
        found[key] = Outstanding(
            known.creations + (one.step == CREATE), known.deletions + (one.step == DELETE)
        )
    return found


def _said(status: Status) -> set[tuple[str, str]]:
    """Conditions by type and status. ``Created`` is set by the operator when it hears of a job, not by a pass."""
    return {(one.type, one.status) for one in status.conditions if one.type != "Created"}


def _text(conditions: Sequence[Condition]) -> str:
    return ", ".join(f"{one.type}={one.status}" for one in conditions)


def _job(fact: WorkloadObserved, said: Training) -> Job:
    status = Status(said.conditions, said.counts, _us(said.start), _us(said.completion))
    return Job(fact.uid, fact.kind, fact.namespace, fact.name, said.spec, status, said.is_deleting)


def _us(stamp: str | None) -> int | None:
    try:
        return parse_stamp(stamp) if stamp else None
    except TimestampError:
        return None
