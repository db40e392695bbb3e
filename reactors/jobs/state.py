"""The state of training jobs beside that of the cluster: their specs, and decided steps that are not observed yet.

In shadow, a step unobserved for :data:`reactors.jobs.shape.UNSEEN_US` is missed, and is decided again once the job's object
changes. If Bursar runs the job, it is decided again at once, as is a step that a complete list disproves.

Source: docs/jobs.md; docs/architecture.md.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from bus.envelope import Event
from bus.events.clock import ClockTicked
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
from bus.events.observations import ObjectsListed
from bus.events.pods import PodGroupObserved, PodGroupVanished, PodsListed, PodState
from bus.events.policies import Mode, PolicyChanged
from bus.events.services import ServiceObserved, ServiceVanished
from bus.events.vocabulary import Fact
from bus.events.workloads import WorkloadObserved, WorkloadVanished
from projections.cluster import Change, ClusterState, Pod, Service, Workload
from projections.cluster.held import READS
from projections.engine.parts import Part
from projections.quota_trees.forest import QuotaTrees
from reactors.jobs import NAME
from reactors.jobs.agreements import Agreement, Agreements, SavedAgreements, StepDiff
from reactors.jobs.orphans import Orphans, service_seen, takes
from reactors.jobs.seeing import PodEnd, around, gang_of, group_seen, job_pods, service_of
from reactors.jobs.shape import (
    GROUPS,
    KINDS,
    LIMIT_REACHED,
    UNSEEN_US,
    GangScheduler,
    JobStatus,
    SeenJob,
    SeenPodGroup,
)
from reactors.jobs.steps import (
    CREATE,
    DELETE,
    DELETE_JOB,
    GROUP,
    REPORT,
    REST_US,
    SERVICE,
    TrackedJob,
    is_of,
    is_same,
    job_of,
    job_uid,
    outstanding,
    service_key,
    service_step,
    slot_name,
    statuses,
    step_of,
    text,
    us,
)


class SavedJobs(msgspec.Struct):
    """The part of a snapshot for training jobs."""

    jobs: dict[str, TrackedJob]
    ends: dict[str, PodEnd]
    awaited: dict[str, tuple[str, str]]
    mode: Mode
    gang_scheduler: str
    since_us: int
    knows_services: bool
    agreements: SavedAgreements


class JobsState(Part):
    """Kept by :class:`reactors.engine.contract.State`. ``jobs`` by uid, ``ends`` by the pod's uid."""

    Saved = SavedJobs
    derived = frozenset({"state", "touched", "orphans"})
    reads: ClassVar[tuple[type[Fact], ...]] = (
        PodState, PodsListed, ObjectsListed, WorkloadObserved, WorkloadVanished, ClockTicked,
        PolicyChanged, CreateReplica, DeleteReplica, AdoptReplica, ReleaseReplica, ReportJob, DeleteJob, EffectSettled,
        ServiceObserved, ServiceVanished, KeepPodGroup, EndPodGroup, PodGroupObserved, PodGroupVanished, *READS,
    )  # fmt: skip

    def __init__(self, state: ClusterState, _: QuotaTrees) -> None:
        self.state = state
        self.jobs: dict[str, TrackedJob] = {}
        self.ends: dict[str, PodEnd] = {}
        #: Decisions to carry out, by id: the job's uid and the step's key.
        self.awaited: dict[str, tuple[str, str]] = {}
        self.mode: Mode = "off"
        self.gang_scheduler = ""
        #: When the policy in force began.
        self.since_us = 0
        #: Services are followed: there was a complete list of them.
        self.knows_services = False
        self.agreements = Agreements()
        self.orphans = Orphans()
        #: The jobs of the newest event.
        self.touched: set[str] = set()

    def restore(self, saved: SavedJobs) -> None:
        """Load a snapshot, beside the restored state of the cluster."""
        super().restore(saved)
        self.orphans = Orphans(self.state.pods.values())

    def apply(self, fact: Fact, event: Event) -> None:
        """Fold one event."""
        self.touched = set()
        for change in self.state.changes(event):
            if change.kind == Pod.kind:
                self._pod(change.before, change.after, fact, event.time_us)
            elif change.kind == Service.kind:
                self.touched |= service_seen(self.state, self.jobs, change)
            elif change.kind in KINDS:
                self._workload(change, fact, event.time_us)
            elif change.kind in GROUPS:
                self.touched |= group_seen(self.jobs, change)
        if isinstance(fact, ClockTicked):
            self._expire(event.time_us)
        elif isinstance(fact, PodsListed):
            self._listed(CREATE, fact, event.time_us)
        elif isinstance(fact, ObjectsListed) and fact.kind == Service.kind:
            self.knows_services |= not fact.until
            self._listed(SERVICE, fact, event.time_us)
        elif isinstance(fact, ObjectsListed) and fact.kind in GROUPS:
            self._listed(GROUP, fact, event.time_us)
        elif isinstance(fact, PolicyChanged) and fact.reactor == NAME:
            self._policy(fact, event.time_us)
        elif isinstance(fact, Decision) and fact.reactor == NAME:
            self._decided(fact)
        elif isinstance(fact, EffectSettled) and fact.reactor == NAME:
            self._settled(fact, event.time_us)

    # observations

    def _workload(self, change: Change, fact: Fact, at_us: int) -> None:
        before = self.jobs.get(change.uid)
        if not isinstance(change.after, Workload):
            if before is not None and DELETE_JOB in before.steps:
                self._agreed(DELETE_JOB)
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
        job = job_of(fact, fact.training)
        if before is None:
            tracked = self.jobs[fact.uid] = TrackedJob(job, at_us)
            for pod in job_pods(self.state, job):
                tracked.appeared(pod)
            return
        old, before.job = before.job.status, job
        self._status_seen(before, old, at_us)
        before.steps = {key: one for key, one in before.steps.items() if not one.is_missed}

    def _status_seen(self, tracked: TrackedJob, old: JobStatus, at_us: int) -> None:
        """Compare the operator's status with the decided one."""
        status, report = tracked.job.status, tracked.steps.get(REPORT)
        last = report.status if report is not None else None
        if report is not None and last is not None:
            if is_same(last, status):
                del tracked.steps[REPORT]
        if statuses(status) == statuses(old) or self.mode == "off":
            return
        # The pods may show a later step before the object shows an earlier one.
        on_their_way = (last, *report.earlier) if report is not None and last is not None else ()
        if any(statuses(one) == statuses(status) for one in on_their_way):
            self._agreed(REPORT)
        else:
            self._differs(tracked, REPORT, text(status.conditions), "unforeseen", at_us)
            tracked.steps.pop(REPORT, None)

    def _pod(self, before: object, after: object, fact: Fact, at_us: int) -> None:
        was, now = (one if isinstance(one, Pod) else None for one in (before, after))
        self.touched |= self.orphans.claimed(self.state, self.jobs, was, now)
        if was is not None and now is not None and was.owner != now.owner:
            self.ends.pop(was.uid, None)
        pod = after if isinstance(after, Pod) else before
        if not isinstance(pod, Pod) or pod.owner is None or pod.owner.kind not in KINDS:
            return
        tracked = self.jobs.get(pod.owner.uid)
        if tracked is not None and not is_of(pod, tracked.job):
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
                self._agreed(DELETE)
                tracked.replaced += pod.phase == "Failed"

    def _appeared(self, tracked: TrackedJob, pod: Pod, fact: Fact, at_us: int) -> None:
        attempt = tracked.appeared(pod)
        step = tracked.steps.pop(f"{CREATE}/{pod.name}", None)
        if step is not None:
            self._agreed(CREATE)
        elif self.mode != "off" and not self.gang_scheduler and isinstance(fact, PodState):
            # Objects older than any decision prove nothing.
            if (us(fact.created) or 0) <= max(tracked.since_us, self.since_us):
                return
            self._differs(tracked, CREATE, pod.name, "unforeseen", at_us)
            tracked.is_elsewhere |= self.mode == "on" and not attempt

    # decisions

    def _decided(self, decision: Decision) -> None:
        uid = job_uid(decision)
        tracked = self.jobs.get(uid)
        found = None if tracked is None else step_of(decision, tracked.steps)
        if tracked is None or found is None:
            return
        key, tracked.steps[key] = found
        if isinstance(decision, CreateReplica) and self.knows_services:
            slot = slot_name(decision)
            if service_of(self.state, tracked.job, slot) is None:
                tracked.steps[service_key(slot)] = service_step(decision)
        if not decision.is_shadow:
            tracked.is_over_limits |= decision.reason == LIMIT_REACHED
            self.awaited[decision.id] = (uid, key)

    def _settled(self, fact: EffectSettled, at_us: int) -> None:
        """A finished step waits for its observation; a refused one rests; an undone one is decided again."""
        uid, key = self.awaited.pop(fact.decision, ("", ""))
        tracked = self.jobs.get(uid)
        if tracked is not None and key.startswith(f"{CREATE}/"):
            tracked.service_settled(fact, at_us)
        step = tracked.steps.get(key) if tracked is not None else None
        if tracked is None or step is None or step.decision != fact.decision:
            return
        if fact.result in ("done", "gone"):
            tracked.steps[key] = msgspec.structs.replace(step, done_us=at_us)
        elif fact.result == "refused":
            is_creation = step.step == CREATE
            until_us = tracked.refused(step.type, at_us) if is_creation else at_us + REST_US
            tracked.steps[key] = msgspec.structs.replace(
                step, rests_until_us=until_us, message=fact.message
            )
        else:
            del tracked.steps[key]

    def _listed(self, step: str, fact: PodsListed | ObjectsListed, asked_us: int) -> None:
        if self.mode == "on" and not fact.until:
            for tracked in self.jobs.values():
                tracked.listed(step, asked_us)

    def _expire(self, now_us: int) -> None:
        is_on = self.mode == "on"
        for tracked in self.jobs.values():
            for key, one in list(tracked.steps.items()):
                if one.rests_until_us:
                    if now_us >= one.rests_until_us:
                        del tracked.steps[key]
                    continue
                if one.is_missed or now_us - one.at_us < UNSEEN_US:
                    continue
                if one.step == SERVICE:
                    del tracked.steps[key]
                    continue
                if is_on:
                    del tracked.steps[key]
                else:
                    tracked.steps[key] = msgspec.structs.replace(one, is_missed=True)
                what = one.name
                if one.status is not None:
                    what = text(one.status.conditions)
                    if statuses(one.status) == statuses(tracked.job.status):
                        continue
                self._differs(tracked, one.step, what, "missed", now_us)

    def _policy(self, fact: PolicyChanged, at_us: int) -> None:
        self.mode, self.since_us = fact.mode, at_us
        named = fact.policy.get("gang_scheduler")
        self.gang_scheduler = named if isinstance(named, str) else ""
        for tracked in self.jobs.values():
            tracked.steps.clear()
            tracked.rests.clear()
            tracked.is_elsewhere = False

    def _agreed(self, step: str) -> None:
        # Where Bursar runs jobs it would agree with itself.
        if self.mode == "shadow":
            self.agreements.agreed(step)

    def _differs(
        self, tracked: TrackedJob, step: str, what: str, result: Agreement, at_us: int
    ) -> None:
        if self.mode == "shadow":
            job = tracked.job
            self.agreements.differs(StepDiff(at_us, job.namespace, job.name, step, what, result))

    # questions

    def seen(self, uid: str) -> SeenJob:
        """The known surroundings of a job. In shadow a PodGroup whose job has pods has started."""
        tracked, is_on = self.jobs[uid], self.mode == "on"
        orphans = self.orphans if is_on and takes(self.state, self.jobs, tracked) else None
        pods, services = around(self.state, tracked, self.ends, orphans)
        gang = None
        if self.gang_scheduler:
            gang = GangScheduler(self.gang_scheduler, SeenPodGroup("Running") if pods else None)
            gang = gang_of(self.state, tracked.job, self.gang_scheduler) if is_on else gang
        return SeenJob(
            pods, services, outstanding(tracked.steps), gang, tracked.replaced, tracked.is_elsewhere,
            tracked.is_over_limits,
        )  # fmt: skip
