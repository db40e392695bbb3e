"""Decided steps of a training job that are not observed yet. Pure.

A decided step is outstanding until the cluster shows it. So it is not decided twice, and no counter can go wrong: a new
pod is the requested one if it has its name and its job's uid.

The name of Bursar's pods is their slot and their attempt: ``train-worker-3-2`` is the second in its place. The attempt grows
after a pod of the one before was observed, never earlier. Until then the
same name is requested again, and the API server makes it once.

Source: docs/jobs.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from bus.clock import SECOND_US, parse_stamp
from bus.errors import TimestampError
from bus.events.decisions import (
    AdoptReplica,
    CreateReplica,
    Decision,
    DeleteJob,
    DeleteReplica,
    EffectSettled,
    EndPodGroup,
    KeepPodGroup,
    ReleaseReplica,
    ReportJob,
)
from bus.events.workloads import Training, WorkloadCondition, WorkloadObserved, by_replica_type
from projections.cluster import Pod
from reactors.jobs.replicas import LONGEST_INDEX, attempt_of, replica_name
from reactors.jobs.shape import INDEX, JOB, TYPE, Job, JobExpectations, JobStatus

#: The first pause after a refusal by the API server; it doubles each time, up to the longest.
REST_US = 60 * SECOND_US
LONGEST_REST_US = 600 * SECOND_US
#: Most unfinished reports of one job.
MOST_REPORTS = 8

CREATE, DELETE, REPORT, DELETE_JOB = "create", "delete", "report", "delete_job"
#: The adoption of an object by the job, or its release.
ADOPT, RELEASE = "adopt", "release"
#: Of a job's PodGroup.
GROUP, END_GROUP = "group", "end_group"
#: A service made with a pod, or by itself if it is missing for one (:data:`SERVICE_MISSING`).
SERVICE, SERVICE_MISSING = "service", "service_missing"


class Step(msgspec.Struct, frozen=True):
    """A decided step that is not observed yet. ``name``: the pod or service, "" = the job itself."""

    step: str
    name: str
    #: The replica type in lower case.
    type: str
    at_us: int
    is_missed: bool = False
    #: Of a report: its status, and those of earlier unobserved reports, the newest first.
    status: JobStatus | None = None
    earlier: tuple[JobStatus, ...] = ()
    #: The decision's id; the time when it was done; for a refusal, the end of its pause, and its message.
    decision: str = ""
    done_us: int | None = None
    rests_until_us: int = 0
    message: str = ""


class CreationRest(msgspec.Struct, frozen=True):
    """Until when no pod of a replica type is asked for, as the API server refused one, and for how long."""

    until_us: int
    long_us: int


class TrackedJob(msgspec.Struct):
    """A training job. ``steps`` by ``create/<pod>``, ``service/<slot>``, ``delete/<uid>``, ``adopt/<uid>``, ``release/<uid>``,
    ``group``, ``end_group``, ``report`` and ``delete_job``.
    """

    job: Job
    #: When it was seen first.
    since_us: int
    steps: dict[str, Step] = {}
    #: Replaced failed pods.
    replaced: int = 0
    #: By slot, the highest attempt with an observed pod.
    attempts: dict[str, int] = {}
    #: Another program makes pods of it.
    is_elsewhere: bool = False
    #: By replica type in lower case, while pods of it are refused.
    rests: dict[str, CreationRest] = {}
    #: A pod of it was to be deleted as the job was past its limits.
    is_over_limits: bool = False

    @property
    def as_reported(self) -> Job:
        """The job with the last decided status, if that is not observed yet."""
        report = self.steps.get(REPORT)
        if report is None or report.status is None or report.is_missed:
            return self.job
        return msgspec.structs.replace(self.job, status=report.status)

    def appeared(self, pod: Pod) -> int:
        """Count a pod of it as the newest attempt at its slot, if it is; its attempt, 0 = it is not named as one."""
        if pod.labels.get(JOB) != self.job.name:
            return 0
        slot, attempt = attempt_at(pod, self.job)
        if attempt and has_place(self.job, pod.labels.get(TYPE, ""), pod.labels.get(INDEX, "")):
            self.attempts[slot] = max(attempt, self.attempts.get(slot, 0))
            self.rests.pop(pod.labels.get(TYPE, ""), None)
        return attempt

    @property
    def left(self) -> set[str]:
        """Uids of refused adoptions, for a while."""
        rest = ((key, one) for key, one in self.steps.items() if one.step == ADOPT)
        return {key.removeprefix(f"{ADOPT}/") for key, one in rest if one.rests_until_us}

    def refused(self, type: str, at_us: int) -> int:
        """A pod of a type was refused: until when the type rests. Several of one look are one refusal."""
        known = self.rests.get(type)
        if known is None or at_us >= known.until_us:
            long_us = REST_US if known is None else min(2 * known.long_us, LONGEST_REST_US)
            known = self.rests[type] = CreationRest(at_us + long_us, long_us)
        return known.until_us

    def listed(self, step: str, asked_us: int) -> None:
        """Forget made objects that a later complete list does not show."""
        self.steps = {
            key: one
            for key, one in self.steps.items()
            if one.step != step or one.done_us is None or one.done_us >= asked_us
        }

    def service_settled(self, fact: EffectSettled, at_us: int) -> None:
        """Fold the outcome of a creation: its service is still to be observed, or was not made."""
        for key, one in list(self.steps.items()):
            if one.step == SERVICE and one.decision == fact.decision:
                if fact.result == "done":
                    self.steps[key] = msgspec.structs.replace(one, done_us=at_us)
                else:
                    del self.steps[key]


def has_place(job: Job, type: str, index: str) -> bool:
    """Whether a pod with these labels is in one of the job's slots: users may write any labels."""
    counts = [spec.count for name, spec in job.spec.replicas.items() if name.lower() == type]
    is_number = index.isascii() and index.isdigit() and len(index) <= LONGEST_INDEX
    return is_number and str(int(index)) == index and any(int(index) < one for one in counts)


def attempt_at(pod: Pod, job: Job) -> tuple[str, int]:
    """The slot of a pod by its labels, and the attempt by its name; 0 = its name has no attempt."""
    slot = replica_name(job.name, pod.labels.get(TYPE, ""), pod.labels.get(INDEX, ""))
    return slot, attempt_of(pod.name, slot)


def is_of(pod: Pod, job: Job) -> bool:
    """Whether a pod with a job as its controller may be the job's: an owner of another namespace is none."""
    owner = pod.owner
    return owner is not None and (pod.namespace, owner.kind) == (job.namespace, job.kind)


def is_same(one: JobStatus, other: JobStatus) -> bool:
    """Whether two statuses say the same, but for times."""
    return (one.conditions, one.counts) == (other.conditions, other.counts)


def step_of(decision: Decision, before: Mapping[str, Step]) -> tuple[str, Step] | None:
    """The outstanding step of a decision, and its key, beside those ``before``."""
    at_us, id, name = decision.at_us, decision.id, decision.target.name
    if isinstance(decision, CreateReplica):
        replica = decision.replica
        if decision.reason == SERVICE_MISSING:
            return service_key(replica), service_step(decision)
        step = Step(CREATE, replica, decision.type.lower(), at_us, decision=id)
        return f"{CREATE}/{replica}", step
    if isinstance(decision, DeleteReplica):
        step = Step(DELETE, name, decision.type, at_us, decision=id)
        return f"{DELETE}/{decision.target.uid}", step
    if isinstance(decision, AdoptReplica | ReleaseReplica):
        what = ADOPT if isinstance(decision, AdoptReplica) else RELEASE
        return f"{what}/{decision.target.uid}", Step(what, name, "", at_us, decision=id)
    if isinstance(decision, KeepPodGroup):
        return GROUP, Step(GROUP, decision.group, "", at_us, decision=id)
    if isinstance(decision, EndPodGroup):
        return END_GROUP, Step(END_GROUP, decision.target.uid, "", at_us, decision=id)
    if isinstance(decision, ReportJob):
        return REPORT, _reported(decision, before.get(REPORT))
    if isinstance(decision, DeleteJob):
        return DELETE_JOB, Step(DELETE_JOB, "", "", at_us, decision=id)
    return None


def job_uid(decision: Decision) -> str:
    """The job of a decision's step."""
    if isinstance(decision, DeleteReplica | EndPodGroup):
        return decision.job
    if isinstance(decision, AdoptReplica | ReleaseReplica):
        return decision.owner.uid
    return decision.target.uid


def slot_name(decision: CreateReplica) -> str:
    """The slot of the made objects: the name of its service."""
    return decision.replica.removesuffix(f"-{decision.attempt}" if decision.attempt else "")


def service_key(slot: str) -> str:
    """The key of the step for the service of a slot."""
    return f"{SERVICE}/{slot}"


def service_step(decision: CreateReplica) -> Step:
    """The service's own step, outstanding until it is observed, too."""
    return Step(
        SERVICE, slot_name(decision), decision.type.lower(), decision.at_us, decision=decision.id
    )


def _reported(decision: ReportJob, before: Step | None) -> Step:
    status = JobStatus(
        decision.conditions, decision.counts, decision.start_us, decision.completion_us
    )
    earlier: tuple[JobStatus, ...] = ()
    if before is not None and before.status is not None and not before.is_missed:
        earlier = (before.status, *before.earlier)[:MOST_REPORTS]
    return Step(
        REPORT, "", "", decision.at_us, status=status, earlier=earlier, decision=decision.id
    )


def outstanding(steps: Mapping[str, Step]) -> dict[str, JobExpectations]:
    """By type and ``pods`` or ``services``. Refused steps are not awaited."""
    found: dict[str, JobExpectations] = {}
    for one in steps.values():
        if one.is_missed or one.rests_until_us or one.step not in (CREATE, DELETE, SERVICE):
            continue
        key = f"{one.type}/{'services' if one.step == SERVICE else 'pods'}"
        known = found.get(key, JobExpectations(since_us=one.at_us))
        found[key] = known.raised(int(one.step != DELETE), int(one.step == DELETE))
    return found


def statuses(status: JobStatus) -> set[tuple[str, str]]:
    """Conditions by type and status. ``Created`` is set by the operator when it hears of a job, not by a pass."""
    return {(one.type, one.status) for one in status.conditions if one.type != "Created"}


def text(conditions: Sequence[WorkloadCondition]) -> str:
    """Conditions in short."""
    return ", ".join(f"{one.type}={one.status}" for one in conditions)


def job_of(fact: WorkloadObserved, training: Training) -> Job:
    """The job as it was observed."""
    status = JobStatus(
        training.conditions, training.counts, us(training.start), us(training.completion)
    )
    # Facts of earlier versions have replica types as the user wrote them.
    replicas = by_replica_type(fact.kind, training.spec.replicas)
    spec = msgspec.structs.replace(training.spec, replicas=replicas)
    return Job(fact.uid, fact.kind, fact.namespace, fact.name, spec, status, training.is_deleting)


def us(stamp: str | None) -> int | None:
    """A stamp in microseconds; None where it is none."""
    try:
        return parse_stamp(stamp) if stamp else None
    except TimestampError:
        return None
