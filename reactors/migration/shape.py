"""Values of a PodMigrationJob: its status, its step, and the objects with an influence on the step. Pure.

Source: koordinator-sh/koordinator, scheduling.koordinator.sh/v1alpha1 PodMigrationJob; docs/migration.md.
"""

from __future__ import annotations

import msgspec

from bus.events.migrations import MigrationCondition, MovedPod

#: Phases. Only users write ``Aborted``.
PENDING, RUNNING, SUCCEEDED, FAILED = "Pending", "Running", "Succeeded", "Failed"
OPEN = ("", PENDING, RUNNING)

#: Modes. An empty one is ``ReservationFirst``.
EVICT_DIRECTLY = "EvictDirectly"

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
    #: The pod bound to the reservation.
    pod: MovedPod | None = None
    conditions: tuple[MigrationCondition, ...] = ()

    def condition(self, type: str) -> MigrationCondition | None:
        """The condition of a type; None if absent."""
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
    """A PodMigrationJob. Times are microseconds UTC; ``ttl_us`` None or 0 = it does not expire."""

    uid: str = ""
    name: str = ""
    created_us: int = 0
    is_paused: bool = False
    ttl_us: int | None = None
    mode: str = ""
    pod_namespace: str = ""
    pod_name: str = ""
    #: The name of its reservation; "" = none yet.
    reservation: str = ""
    status: MigrationStatus = MigrationStatus()

    @property
    def reserves(self) -> bool:
        """Whether room is reserved before the eviction."""
        return self.mode != EVICT_DIRECTLY


class PodToMove(msgspec.Struct, frozen=True):
    """The job's pod, while it exists."""

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
    #: It was created for the job, and is deleted with it.
    is_own: bool = True


class MigrationScene(msgspec.Struct, frozen=True):
    """The surroundings of a job. Texts name an obstacle; "" = no obstacle."""

    pod: PodToMove | None = None
    #: The pod is unknown, and may still be observed.
    is_pod_unknown: bool = False
    reservation: ReservedRoom | None = None
    #: The reason why the pod may never move.
    forbidden: str = ""
    #: The reason why it may not start to move now, or may not be evicted now.
    held: str = ""
    #: A reservation or an eviction was decided, with an unknown outcome.
    is_outstanding: bool = False
    #: The API server evicted the pod.
    is_evicted: bool = False
    #: The API server's words at its refusal of the last reservation, or eviction.
    refused_reservation: str = ""
    refused_eviction: str = ""


class MigrationStep(msgspec.Struct, frozen=True):
    """The next step: a status, an action, or a wait without an action."""

    status: MigrationStatus
    #: ``reserve``, ``evict`` or ``drop`` (delete the reservation).
    acts: tuple[str, ...] = ()
    wait: str = ""
