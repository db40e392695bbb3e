"""The steps of PodMigrationJobs: of running jobs at each of their events, of waiting jobs at ticks, by arbitration. Pure.

Source: docs/migration.md; docs/architecture.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from bus.clock import SECOND_US
from bus.events.clock import ClockTicked
from bus.events.decisions import Decision, Evict, Target
from bus.events.migrations import EndMigration, EndReservation, ReportMigration, ReserveRoom
from projections.cluster import POD, Pod
from projections.cluster.held import held_milli
from projections.cluster.migrations import Migration
from projections.cluster.reservations import AVAILABLE, Reservation
from reactors.engine.contract import ProposedDecision, Rest, Trigger
from reactors.jobs.decide import lost
from reactors.migration.arbitration import Waiting, ordered
from reactors.migration.eligibility import Migrating, forbidden, held, unhealthy
from reactors.migration.shape import OPEN, RUNNING, MigrationJob, MigrationStep
from reactors.migration.state import END, REPORT, MigrationState, is_same
from reactors.migration.steps import DROP, EVICT, RESERVE, is_over, next_step

if TYPE_CHECKING:
    from reactors.migration.settings import MigrationPolicy

#: The time from a step's decision to its expiry.
EXPIRES_US = 300 * SECOND_US
#: The reason of an eviction of a pod with reserved room elsewhere, or of one moved without a reservation.
MOVED, MOVED_DIRECTLY = "pod-moved", "pod-moved-directly"


def is_concerned(view: MigrationState) -> bool:
    """Whether the newest event was about a PodMigrationJob."""
    return bool(view.touched)


def decide(
    view: MigrationState, trigger: Trigger, policy: MigrationPolicy
) -> list[ProposedDecision]:
    """The due steps without an earlier decision."""
    return [one for found in _steps(view, trigger, policy) for one in found[0]]


def rests(view: MigrationState, trigger: Trigger, policy: MigrationPolicy) -> Iterator[Rest]:
    """The waiting jobs, each with the reason of its wait."""
    for drafts, job, step in _steps(view, trigger, policy):
        if step.wait and not drafts:
            yield Rest(_report(view, job, step, trigger), step.wait)


_Found = tuple[list[ProposedDecision], MigrationJob, MigrationStep]


def _steps(view: MigrationState, trigger: Trigger, policy: MigrationPolicy) -> Iterator[_Found]:
    is_tick = isinstance(trigger.fact, ClockTicked)
    uids = view.tracked if is_tick else view.touched & view.tracked.keys()
    if not uids or not view.knows_jobs:
        return
    jobs = {uid: view.job(uid) for uid in sorted(uids)}
    begun = [
        job for job in jobs.values()
        if is_over(job, trigger.at_us) or job.status.phase not in ("", "Pending")
    ]  # fmt: skip
    if not (begun or is_tick):
        # A tick tries the waiting jobs: their number costs nothing at each change of one.
        return
    migrating = Migrating(view.state, (pod for _, pod in view.moving()))
    for job in begun:
        yield _next(view, job, trigger, policy, migrating)
    if not is_tick:
        return
    waiting = [
        Waiting(job, view.pod(uid))
        for uid, job in jobs.items()
        if job.status.phase in ("", "Pending") and not is_over(job, trigger.at_us)
    ]
    for one in ordered(waiting, _running(view)):
        found = _next(view, one.job, trigger, policy, migrating)
        if found[2].status.phase == RUNNING and one.pod is not None:
            # The next ones are tried in addition to it.
            migrating.add(one.pod)
        yield found


def _running(view: MigrationState) -> Counter[str]:
    """Running migrations, by the controller of their pods."""
    return Counter(pod.owner.uid for _, pod in view.moving() if pod.owner is not None)


def _next(
    view: MigrationState, job: MigrationJob, trigger: Trigger, policy: MigrationPolicy,
    migrating: Migrating,
) -> _Found:  # fmt: skip
    pod, reason, wait = view.pod(job.uid), "", ""
    if pod is not None and job.status.phase in OPEN:
        if job.status.phase == RUNNING:
            # Its own migration does not hinder it; the workload may roll out meanwhile.
            wait = unhealthy(view.state, pod, policy, migrating) if pod.node else ""
        else:
            reason = forbidden(view.state, pod, policy)
            wait = held(view.state, pod, policy, migrating)
    step = next_step(job, view.scene(job.uid, trigger.at_us, reason, wait), trigger.at_us)
    return list(_drafts(view, job, pod, step, trigger)), job, step


def _drafts(
    view: MigrationState, job: MigrationJob, pod: Pod | None, step: MigrationStep, trigger: Trigger
) -> Iterator[ProposedDecision]:
    tracked, target = view.tracked[job.uid], _target(job)
    expires_us = trigger.at_us + EXPIRES_US
    if is_over(job, trigger.at_us):
        if END not in tracked.attempts:
            yield ProposedDecision(
                verb=EndMigration, key=f"{job.uid}/end", target=target, reason="ttl_over", expires_us=expires_us
            )  # fmt: skip
        return
    for act in step.acts:
        if act in tracked.attempts:
            continue
        if act == RESERVE and pod is not None:
            moved = Target(POD, pod.namespace, pod.name, pod.uid, pod.node)
            yield ProposedDecision(
                verb=ReserveRoom, key=f"{job.uid}/reserve", target=target, reason="room_missing",
                expires_us=expires_us, fields={"pod": moved},
            )  # fmt: skip
        elif act == EVICT and pod is not None:
            yield _eviction(view, job, pod, trigger)
        elif act == DROP:
            room = view.room(job.uid)
            assert room is not None
            yield ProposedDecision(
                verb=EndReservation, key=room.uid, reason="migration_failed", expires_us=expires_us,
                target=Target(Reservation.kind, "", room.name, room.uid, room.node), fields={"job": job.uid},
            )  # fmt: skip
    is_decided = tracked.reported is not None and is_same(step.status, tracked.reported)
    if not (is_decided or is_same(step.status, job.status) or REPORT in _refused(view, job)):
        yield _report(view, job, step, trigger)


def _refused(view: MigrationState, job: MigrationJob) -> set[str]:
    """The refused steps of a job, during their pause."""
    attempts = view.tracked[job.uid].attempts
    return {step for step, one in attempts.items() if one.result == "refused"}


def _eviction(
    view: MigrationState, job: MigrationJob, pod: Pod, trigger: Trigger
) -> ProposedDecision:
    numbers = {"priority": pod.priority, **lost(pod, held_milli(view.state, pod), trigger.at_us)}
    return ProposedDecision(
        verb=Evict, key=pod.uid, target=Target(POD, pod.namespace, pod.name, pod.uid, pod.node),
        reason=MOVED if job.reserves else MOVED_DIRECTLY, numbers=numbers, expires_us=trigger.at_us + EXPIRES_US,
    )  # fmt: skip


def _report(
    view: MigrationState, job: MigrationJob, step: MigrationStep, trigger: Trigger
) -> ProposedDecision:
    status, pod = step.status, view.pod(job.uid)
    return ProposedDecision(
        verb=ReportMigration, key=job.uid, target=_target(job), expires_us=trigger.at_us + EXPIRES_US,
        reason=(status.reason or status.status or status.phase or "waiting"),
        fields={
            "phase": status.phase, "status": status.status, "cause": status.reason, "message": status.message,
            "node": status.node, "new_pod": status.pod, "conditions": status.conditions,
            "pod_uid": view.tracked[job.uid].pod_uid or (pod.uid if pod is not None else ""),
        },
    )  # fmt: skip


def _target(job: MigrationJob) -> Target:
    return Target(Migration.kind, "", job.name, job.uid)


def overtaken(view: MigrationState, decision: Decision, policy: MigrationPolicy) -> str:
    """The reason why newer facts make a step unnecessary; "" = it is still needed."""
    if isinstance(decision, Evict):
        return _eviction_overtaken(view, decision, policy)
    if isinstance(decision, EndReservation):
        return "" if decision.target.uid in view.state.reservations else "gone"
    tracked = view.tracked.get(decision.target.uid)
    if tracked is None:
        return "gone"
    if isinstance(decision, ReserveRoom):
        is_running = view.job(decision.target.uid).status.phase == RUNNING
        return "" if is_running else "job_ended"
    if isinstance(decision, ReportMigration):
        report = tracked.attempts.get(REPORT)
        return "" if report is not None and report.decision == decision.id else "status_changed"
    return ""


def _eviction_overtaken(view: MigrationState, decision: Evict, policy: MigrationPolicy) -> str:
    """The eviction needs its job and its reservation until it is done: Available, and on another node."""
    pod = view.state.pods.get(decision.key)
    if pod is None or pod.is_ended:
        return "gone"
    if not view.knows_jobs:
        return "jobs_unknown"
    migrating = Migrating(view.state, (one for _, one in view.moving()))
    for uid, moved in view.moving():
        job = view.job(uid)
        if moved.uid != pod.uid or job.is_paused:
            continue
        room = view.room(uid)
        if job.reserves and (
            room is None or room.phase != AVAILABLE or room.node in ("", pod.node)
        ):
            return "reservation_lost"
        return unhealthy(view.state, pod, policy, migrating)
    return "job_ended"


def managed(view: MigrationState) -> int:
    """The number of pods: the limit of all evictions is a share of it."""
    return len(view.state.pods)
