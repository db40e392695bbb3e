"""The steps of a training job that were decided and not seen yet. Pure.

A decided step is outstanding until the cluster shows it, so it is not decided twice, and no counter has to be kept right: a pod
that appears is the one that was asked for if it has its name and its job's uid.

A pod that Bursar makes is named by its slot and its attempt: ``train-worker-3-2`` is the second in its place. The attempt grows
once a pod of the one before was seen, never before: until then the same name is asked for again, and the API server makes it
once.

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
from bus.events.workloads import Condition, Training, WorkloadObserved, by_replica_type
from projections.cluster import Pod
from reactors.jobs.replicas import LONGEST_INDEX, attempt_of, replica_name
from reactors.jobs.shape import INDEX, JOB, TYPE, Job, Outstanding, Status

#: What the API server refused is tried again after this, and after twice as long each time, up to the longest.
REST_US = 60 * SECOND_US
LONGEST_REST_US = 600 * SECOND_US
#: Most reports of one job that may be on their way.
MOST_REPORTS = 8

CREATE, DELETE, REPORT, DELETE_JOB = "create", "delete", "report", "delete_job"
#: That an object gets the job as its controller, or loses it.
ADOPT, RELEASE = "adopt", "release"
#: Of a job's PodGroup.
GROUP, END_GROUP = "group", "end_group"
#: A service that is made with a pod, or by itself where it is missing for one (:data:`SERVICE_MISSING`).
SERVICE, SERVICE_MISSING = "service", "service_missing"


class Step(msgspec.Struct, frozen=True):
    """A decided step that was not seen yet. ``name``: the pod or service, "" = the job itself."""

    step: str
    name: str
    #: The replica type in lower case.
    type: str
    at_us: int
    is_missed: bool = False
    #: Of a report, what it says, and what reports before it said that were not seen either, the newest first.
    status: Status | None = None
    earlier: tuple[Status, ...] = ()
    #: The decision's id; when it was done; and where it was refused, until when it rests, and in which words.
    decision: str = ""
    done_us: int | None = None
    rests_until_us: int = 0
    message: str = ""


class Rest(msgspec.Struct, frozen=True):
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
    #: Failed pods that were replaced.
    replaced: int = 0
    #: By slot, the highest attempt of which a pod was seen.
    attempts: dict[str, int] = {}
    #: Somebody else makes pods of it.
    is_elsewhere: bool = False
    #: By replica type in lower case, while pods of it are refused.
    rests: dict[str, Rest] = {}
    #: A pod of it was to be deleted as the job was past its limits.
    is_over_limits: bool = False

    @property
    def as_reported(self) -> Job:
        """The job with the status that was decided last, if that was not seen yet."""
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
        """Uids of what it was not given, for a while."""
        rest = ((key, one) for key, one in self.steps.items() if one.step == ADOPT)
        return {key.removeprefix(f"{ADOPT}/") for key, one in rest if one.rests_until_us}

    def refused(self, type: str, at_us: int) -> int:
        """A pod of a type was refused: until when the type rests. Several of one look are one refusal."""
        known = self.rests.get(type)
        if known is None or at_us >= known.until_us:
            long_us = REST_US if known is None else min(2 * known.long_us, LONGEST_REST_US)
            known = self.rests[type] = Rest(at_us + long_us, long_us)
        return known.until_us

    def listed(self, step: str, asked_us: int) -> None:
        """What was made before a complete list was asked for, and was never seen, is gone."""
        self.steps = {
            key: one
            for key, one in self.steps.items()
            if one.step != step or one.done_us is None or one.done_us >= asked_us
        }

    def service_settled(self, fact: EffectSettled, at_us: int) -> None:
        """What became of a creation: the service that is made with the pod is still to be seen, or was not made."""
        for key, one in list(self.steps.items()):
            if one.step == SERVICE and one.decision == fact.decision:
                if fact.result == "done":
                    self.steps[key] = msgspec.structs.replace(one, done_us=at_us)
                else:
                    del self.steps[key]


def has_place(job: Job, type: str, index: str) -> bool:
    """Whether a pod with these labels is in one of the job's slots: who makes pods writes any labels."""
    counts = [spec.count for name, spec in job.spec.replicas.items() if name.lower() == type]
    is_number = index.isascii() and index.isdigit() and len(index) <= LONGEST_INDEX
    return is_number and str(int(index)) == index and any(int(index) < one for one in counts)


def attempt_at(pod: Pod, job: Job) -> tuple[str, int]:
    """The slot of a pod by its labels, and the attempt by its name; 0 = its name is that of no attempt."""
    slot = replica_name(job.name, pod.labels.get(TYPE, ""), pod.labels.get(INDEX, ""))
    return slot, attempt_of(pod.name, slot)


def is_of(pod: Pod, job: Job) -> bool:
    """Whether a pod that names a job as its controller may be the job's: an owner of another namespace is none."""
    owner = pod.owner
    return owner is not None and (pod.namespace, owner.kind) == (job.namespace, job.kind)


def is_same(one: Status, other: Status) -> bool:
    """Whether two statuses say the same, but for times."""
    return (one.conditions, one.counts) == (other.conditions, other.counts)


def step_of(decision: Decision, before: Mapping[str, Step]) -> tuple[str, Step] | None:
    """The step that a decision makes outstanding, and its key, beside those ``before``."""
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
    """The job whose step a decision is."""
    if isinstance(decision, DeleteReplica | EndPodGroup):
        return decision.job
    if isinstance(decision, AdoptReplica | ReleaseReplica):
        return decision.owner.uid
    return decision.target.uid


def slot_name(decision: CreateReplica) -> str:
    """The slot of what is made: what its service is called."""
    return decision.replica.removesuffix(f"-{decision.attempt}" if decision.attempt else "")


def service_key(slot: str) -> str:
    """The key of the step that makes the service of a slot."""
    return f"{SERVICE}/{slot}"


def service_step(decision: CreateReplica) -> Step:
    """That a service is made is outstanding, too, until it is seen."""
    return Step(
        SERVICE, slot_name(decision), decision.type.lower(), decision.at_us, decision=decision.id
    )


def _reported(decision: ReportJob, before: Step | None) -> Step:
    status = Status(decision.conditions, decision.counts, decision.start_us, decision.completion_us)
    earlier: tuple[Status, ...] = ()
    if before is not None and before.status is not None and not before.is_missed:
        earlier = (before.status, *before.earlier)[:MOST_REPORTS]
    return Step(
        REPORT, "", "", decision.at_us, status=status, earlier=earlier, decision=decision.id
    )


def outstanding(steps: Mapping[str, Step]) -> dict[str, Outstanding]:
    """By type and ``pods`` or ``services``. Nobody waits for what was refused."""
    found: dict[str, Outstanding] = {}
    for one in steps.values():
        if one.is_missed or one.rests_until_us or one.step not in (CREATE, DELETE, SERVICE):
            continue
        key = f"{one.type}/{'services' if one.step == SERVICE else 'pods'}"
        known = found.get(key, Outstanding(since_us=one.at_us))
        found[key] = known.raised(int(one.step != DELETE), int(one.step == DELETE))
    return found


def statuses(status: Status) -> set[tuple[str, str]]:
    """Conditions by type and status. ``Created`` is set by the operator when it hears of a job, not by a pass."""
    return {(one.type, one.status) for one in status.conditions if one.type != "Created"}


def text(conditions: Sequence[Condition]) -> str:
    """Conditions in short."""
    return ", ".join(f"{one.type}={one.status}" for one in conditions)


def job_of(fact: WorkloadObserved, training: Training) -> Job:
    """The job as it was observed."""
    status = Status(
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
