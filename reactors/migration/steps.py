"""The next step of a PodMigrationJob. Pure.

*ReservationFirst*: reserve room on another node, wait until the reservation is Available, evict the pod, and wait until the new
pod is bound to the reservation. *EvictDirectly*: evict the pod. A failed creation or a vanished reservation does not end the job.
Such a job ends at its ttl. A failed job deletes the unused reservation made for it.

Source: koordinator-sh/koordinator, pkg/descheduler/controllers/migration/controller.go; docs/migration.md.
"""

from __future__ import annotations

import msgspec

from bus.clock import SECOND_US
from projections.cluster.reservations import AVAILABLE, PENDING
from projections.cluster.reservations import SUCCEEDED as USED
from reactors.migration.shape import (
    COMPLETE,
    EVICTED,
    EVICTING,
    EVICTION,
    EXPIRED,
    FAILED,
    FORBIDDEN,
    INVALID_POD,
    MISSING_POD,
    NOT_CREATED,
    NOT_EVICTED,
    OPEN,
    POD_BOUND,
    POD_SCHEDULED,
    RESERVATION_CREATED,
    RESERVATION_SCHEDULED,
    RUNNING,
    SUCCEEDED,
    TIMEOUT,
    UNSCHEDULABLE,
    WAITING_FOR_POD,
    MigrationJob,
    MigrationScene,
    MigrationStatus,
    MigrationStep,
    ReservedRoom,
)

#: The actions of steps.
RESERVE, EVICT, DROP = "reserve", "evict", "drop"
#: The time from a job's ttl to its deletion; for a job without a ttl, from its creation.
AFTER_TTL_US = 300 * SECOND_US
WITHOUT_TTL_US = 1800 * SECOND_US
#: Most transitions of a job at once.
MOST = 16


def is_over(job: MigrationJob, now_us: int) -> bool:
    """Whether a job and its reservation are due for deletion, in any phase."""
    most_us = job.ttl_us + AFTER_TTL_US if job.ttl_us else WITHOUT_TTL_US
    return now_us - job.created_us >= most_us


def next_step(job: MigrationJob, seen: MigrationScene, now_us: int) -> MigrationStep:
    """The next step, after all transitions without an action."""
    step = _transition(job, seen, now_us)
    for _ in range(MOST):
        if step.acts or step.status == job.status:
            break
        job = msgspec.structs.replace(job, status=step.status)
        step = _transition(job, seen, now_us)
    return step


def _transition(job: MigrationJob, seen: MigrationScene, now_us: int) -> MigrationStep:
    status = job.status
    if job.is_paused or status.phase not in OPEN:
        return MigrationStep(status)
    if job.ttl_us and now_us - job.created_us >= job.ttl_us:
        return _failed(status, seen, TIMEOUT, "Abort job caused by timeout")
    if status.phase != RUNNING:
        return _begun(job, seen)
    return _reserved(job, seen) if job.reserves else _evicted(job, seen, None)


def _begun(job: MigrationJob, seen: MigrationScene) -> MigrationStep:
    status = job.status
    if not job.pod_namespace or not job.pod_name:
        return _failed(status, seen, INVALID_POD, "Abort job caused by invalid PodRef")
    if seen.is_pod_unknown:
        return MigrationStep(status, wait="pod_unknown")
    if seen.pod is None:
        return _missing(job, seen)
    if seen.forbidden:
        return _failed(status, seen, FORBIDDEN, seen.forbidden)
    if seen.held:
        return MigrationStep(status, wait=seen.held)
    return MigrationStep(msgspec.structs.replace(status, phase=RUNNING))


def _reserved(job: MigrationJob, seen: MigrationScene) -> MigrationStep:
    """The reservation first; then the eviction."""
    status, room = job.status, seen.reservation
    if room is None:
        return _without_room(job, seen)
    if not status.holds(RESERVATION_CREATED):
        return MigrationStep(status.noted(RESERVATION_CREATED, is_true=True))
    if room.unschedulable is not None and not status.holds(RESERVATION_SCHEDULED):
        status = _noted(status, RESERVATION_SCHEDULED, UNSCHEDULABLE, room.unschedulable)
    if room.phase in ("", PENDING):
        return MigrationStep(status, wait="reservation_pending")
    if room.is_expired:
        return _failed(status, seen, EXPIRED, "Reservation expired")
    if not room.node:
        return _failed(status, seen, UNSCHEDULABLE, room.unschedulable or "")
    if not status.node:
        if seen.pod is not None and seen.pod.node == room.node and not room.is_for_pod:
            message = "The reservation is on the same node as the pod"
            return _failed(status, seen, FORBIDDEN, message)
        status = msgspec.structs.replace(status, node=room.node)
        return MigrationStep(status.noted(RESERVATION_SCHEDULED, is_true=True))
    if room.is_for_pod:
        return _placed(job, seen, status)
    return _evicted(job, seen, room)


def _without_room(job: MigrationJob, seen: MigrationScene) -> MigrationStep:
    status = job.status
    if status.holds(RESERVATION_CREATED) or job.reservation:
        return MigrationStep(status, wait="reservation_missing")
    if seen.is_outstanding:
        return MigrationStep(status, wait="reservation_outstanding")
    if seen.pod is None:
        return _missing(job, seen)
    if seen.refused_reservation:
        message = f"Failed to create Reservation caused by {seen.refused_reservation}"
        status = _noted(status, RESERVATION_CREATED, NOT_CREATED, message)
        return MigrationStep(status, wait="reservation_refused")
    return MigrationStep(status, (RESERVE,))


def _placed(job: MigrationJob, seen: MigrationScene, status: MigrationStatus) -> MigrationStep:
    """A pod without a run is bound to the reservation itself, and is not evicted."""
    if seen.pod is None:
        return _missing(job, seen)
    if not seen.pod.node:
        return MigrationStep(_noted(status, POD_SCHEDULED, UNSCHEDULABLE), wait="pod_pending")
    message = f"Assign Pod {job.pod_namespace}/{job.pod_name} to node {seen.pod.node}"
    status = status.noted(POD_SCHEDULED, is_true=True)
    return MigrationStep(_complete(status, message))


def _evicted(job: MigrationJob, seen: MigrationScene, room: ReservedRoom | None) -> MigrationStep:
    """The eviction, where all it needs is there; and the new pod."""
    status = job.status
    if status.holds(EVICTION):
        return _taken(job, room)
    begun = status.condition(EVICTION)
    is_evicting = begun is not None and begun.reason == EVICTING
    if seen.pod is None:
        if not (is_evicting or seen.is_evicted):
            # Its end may be observed before the answer to its eviction.
            is_asked = seen.is_outstanding
            return (
                MigrationStep(status, wait="eviction_outstanding")
                if is_asked
                else _missing(job, seen)
            )
        return MigrationStep(status.noted(EVICTION, EVICTED, is_true=True))
    if is_evicting:
        return MigrationStep(status, wait="pod_ending")
    if seen.is_evicted:
        message = f"Pod {job.pod_namespace}/{job.pod_name} evicted from node {seen.pod.node}"
        return MigrationStep(status.noted(EVICTION, EVICTING, message))
    if room is not None and room.phase == USED:
        return _failed(status, seen, FORBIDDEN, "Reservation is already bound by another Pod")
    if room is not None and (room.phase != AVAILABLE or room.node == seen.pod.node):
        return MigrationStep(status, wait="reservation_unavailable")
    if seen.is_outstanding:
        return MigrationStep(status, wait="eviction_outstanding")
    if seen.refused_eviction:
        status = _noted(status, EVICTION, NOT_EVICTED, seen.refused_eviction)
        return MigrationStep(status, wait="eviction_refused")
    if seen.held:
        return MigrationStep(status, wait=seen.held)
    return MigrationStep(status, (EVICT,))


def _taken(job: MigrationJob, room: ReservedRoom | None) -> MigrationStep:
    status, pod = job.status, f"{job.pod_namespace}/{job.pod_name}"
    if room is None:
        return MigrationStep(_complete(status, f"Pod {pod} has been evicted"))
    if room.owner is None:
        return MigrationStep(_noted(status, POD_BOUND, WAITING_FOR_POD), wait="new_pod")
    owner = room.owner
    message = f"Bind Pod {owner.namespace}/{owner.name} in Reservation {job.reservation}"
    status = status.noted(POD_BOUND, message=message, is_true=True)
    return MigrationStep(_complete(msgspec.structs.replace(status, pod=owner), message))


def _noted(status: MigrationStatus, type: str, reason: str, message: str = "") -> MigrationStatus:
    """The status with a false condition, unless it has it already."""
    known = status.condition(type)
    if known is not None and (known.is_true, known.reason, known.message) == (False, reason, message):  # fmt: skip
        return status
    return status.noted(type, reason, message)


def _complete(status: MigrationStatus, message: str) -> MigrationStatus:
    return msgspec.structs.replace(
        status, phase=SUCCEEDED, status=COMPLETE, reason="", message=message
    )


def _missing(job: MigrationJob, seen: MigrationScene) -> MigrationStep:
    message = f"Abort job caused by missing Pod {job.pod_namespace}/{job.pod_name}"
    return _failed(job.status, seen, MISSING_POD, message)


def _failed(
    status: MigrationStatus, seen: MigrationScene, reason: str, message: str
) -> MigrationStep:
    room = seen.reservation
    # A used reservation holds nothing any more, and its record stays readable.
    acts = (DROP,) if room is not None and room.is_own and room.phase != USED else ()
    failed = msgspec.structs.replace(status, phase=FAILED, reason=reason, message=message)
    return MigrationStep(failed, acts)
