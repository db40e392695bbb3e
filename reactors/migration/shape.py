"""A PodMigrationJob, its status, and the objects around it that decide its next step. Pure.

Source: koordinator-sh/koordinator, scheduling.koordinator.sh/v1alpha1 PodMigrationJob; docs/migration.md.
"""

from __future__ import annotations

import msgspec

from bus.events.migrations import MigrationCondition, MovedPod

#: Phases. ``Aborted`` is declared, and written by no one but users.
PENDING, RUNNING, SUCCEEDED, FAILED = "Pending", "Running", "Succeeded", "Failed"
OPEN = ("", PENDING, RUNNING)

#: Modes. An empty one is ``ReservationFirst``.
RESERVATION_FIRST, EVICT_DIRECTLY = "ReservationFirst", "EvictDirectly"

#: Types of conditions.
RESERVATION_CREATED = "ReservationCreated"
RESERVATION_SCHEDULED = "ReservationScheduled"
EVICTION = "Eviction"
POD_SCHEDULED = "PodScheduled"
POD_BOUND = "PodBoundReservation"
COMPLETE = "Complete"

#: Reasons.
TIMEOUT = "Timeout"
INVALID_POD = "InvalidPodRef"
MISSING_POD = "MissingPod"
EXPIRED = "ReservationExpired"
UNSCHEDULABLE = "Unschedulable"
FORBIDDEN = "ForbiddenMigratePod"
NOT_CREATED = "FailedCreateReservation"
EVICTING = "Evicting"
EVICTED = "EvictComplete"
NOT_EVICTED = "FailedEvict"
WAITING_FOR_POD = "WaitForPodBindReservation"


class MigrationStatus(msgspec.Struct, frozen=True):
    """The status of a PodMigrationJob. ``status`` is the type of the newest condition, or ``Complete``."""

    phase: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    node: str = ""
    #: The pod that took the reservation.
    pod: MovedPod | None = None
    conditions: tuple[MigrationCondition, ...] = ()

    def condition(self, type: str) -> MigrationCondition | None:
        """The condition of a type; None where there is none."""
        return next((one for one in self.conditions if one.type == type), None)

    def holds(self, type: str) -> bool:
        """Whether the condition of a type is true."""
        found = self.condition(type)
        return found is not None and found.is_true

    def noted(self, type: str, reason: str = "", message: str = "", *, is_true: bool = False) -> MigrationStatus:  # fmt: skip
        """The status with this condition as its newest."""
        new = MigrationCondition(type, is_true, reason, message)
        if self.condition(type) is None:
            conditions = (*self.conditions, new)
        else:
            conditions = tuple(new if one.type == type else one for one in self.conditions)
        return msgspec.structs.replace(self, status=type, reason=reason, message=message, conditions=conditions)  # fmt: skip


class MigrationJob(msgspec.Struct, frozen=True, kw_only=True):
    """A PodMigrationJob. Times are microseconds UTC; ``ttl_us`` None or 0 = it has no end."""

    uid: str = ""
    name: str = ""
    created_us: int = 0
    is_paused: bool = False
    ttl_us: int | None = None
    mode: str = ""
    pod_namespace: str = ""
    pod_name: str = ""
    #: The reservation that it names; "" = none yet.
    reservation: str = ""
    status: MigrationStatus = MigrationStatus()

    @property
    def reserves(self) -> bool:
        """Whether room is reserved before the eviction."""
        return self.mode != EVICT_DIRECTLY


class PodToMove(msgspec.Struct, frozen=True):
    """The pod that a job names, while it exists."""

    uid: str
    node: str = ""


class ReservedRoom(msgspec.Struct, frozen=True):
    """The job's reservation. ``is_for_pod``: its owner is the waiting pod itself."""

    phase: str = ""
    node: str = ""
    is_expired: bool = False
    #: The message of its condition Unschedulable; None = it has no such condition.
    unschedulable: str | None = None
    owner: MovedPod | None = None
    is_for_pod: bool = False
    #: It was made for the job, and ends with it.
    is_own: bool = True


class MigrationScene(msgspec.Struct, frozen=True):
    """The surroundings of a job. Texts name what is in the way; "" = nothing is."""

    pod: PodToMove | None = None
    #: The pod is not among known pods, and may still be observed.
    is_pod_unknown: bool = False
    reservation: ReservedRoom | None = None
    #: Why the pod may never be moved.
    forbidden: str = ""
    #: Why it may not start to move now, or not be evicted now.
    held: str = ""
    #: A reservation, or an eviction, was decided and its outcome is unknown.
    is_outstanding: bool = False
    #: The eviction was done by the API server.
    is_evicted: bool = False
    #: The API server's words where it refused the last reservation, or eviction.
    refused_reservation: str = ""
    refused_eviction: str = ""


class MigrationStep(msgspec.Struct, frozen=True):
    """The next step: a status, what is to be done now, and the wait where nothing is."""

    status: MigrationStatus
    #: ``reserve``, ``evict`` or ``drop`` (delete the reservation).
    acts: tuple[str, ...] = ()
    wait: str = ""
