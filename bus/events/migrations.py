"""Facts about PodMigrationJobs, by which pods move to other nodes, and the decisions about them.

Source: koordinator-sh/koordinator, scheduling.koordinator.sh/v1alpha1 PodMigrationJob.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from bus.events.decisions import Decision, Target
from bus.events.vocabulary import Fact


class MovedPod(msgspec.Struct, frozen=True, omit_defaults=True):
    """A pod that took the room which was reserved for a migration."""

    namespace: str = ""
    name: str = ""
    uid: str = ""


class MigrationCondition(msgspec.Struct, frozen=True, omit_defaults=True):
    """An entry of ``status.conditions`` of a PodMigrationJob, without its times."""

    type: str
    is_true: bool = False
    reason: str = ""
    message: str = ""


class MigrationObserved(Fact, frozen=True, kw_only=True):
    """A PodMigrationJob was observed. Key: its uid. Followed only while a policy of migrations asks for it."""

    wire_type: ClassVar[str] = "podmigrationjob.observed"

    uid: str
    name: str
    resource_version: str
    created: str | None = None
    is_terminating: bool = False
    paused: bool = False
    #: A duration as Go writes it; None = not set.
    ttl: str | None = None
    #: ``EvictDirectly``; else ``ReservationFirst``.
    mode: str = ""
    #: spec.podRef.
    pod_namespace: str = ""
    pod_name: str = ""
    pod_uid: str = ""
    #: The name in spec.reservationOptions.reservationRef; "" = none.
    reservation: str = ""
    phase: str = ""
    #: status.status, reason, message and nodeName.
    status: str = ""
    reason: str = ""
    message: str = ""
    node: str = ""
    #: status.podRef: the pod that took the reservation.
    new_pod: MovedPod | None = None
    conditions: tuple[MigrationCondition, ...] = ()


class MigrationVanished(Fact, frozen=True, kw_only=True):
    """A PodMigrationJob was deleted. Key: its uid."""

    wire_type: ClassVar[str] = "podmigrationjob.vanished"

    uid: str
    name: str
    resource_version: str


class ReserveRoom(Decision, frozen=True, kw_only=True):
    """Reserve room on another node for a pod that is to move. Target: the PodMigrationJob, whose uid names the Reservation."""

    wire_type: ClassVar[str] = "decision.reserve_room"
    is_independent: ClassVar[bool] = True

    #: The pod.
    pod: Target


class ReportMigration(Decision, frozen=True, kw_only=True):
    """Write the status of a PodMigrationJob. Target: the job."""

    wire_type: ClassVar[str] = "decision.report_migration"
    is_independent: ClassVar[bool] = True

    phase: str
    #: Type of the newest condition, or ``Complete``; why it failed, or waits; and the same in words.
    status: str = ""
    cause: str = ""
    message: str = ""
    #: The node of its reservation.
    node: str = ""
    #: The pod that it moves; "" = none was found.
    pod_uid: str = ""
    #: The pod that took the reservation.
    new_pod: MovedPod | None = None
    conditions: tuple[MigrationCondition, ...] = ()


class EndReservation(Decision, frozen=True, kw_only=True):
    """Delete the reservation of a migration that failed. Target: the Reservation."""

    wire_type: ClassVar[str] = "decision.end_reservation"
    is_independent: ClassVar[bool] = True

    #: The job's uid.
    job: str


class EndMigration(Decision, frozen=True, kw_only=True):
    """Delete a PodMigrationJob whose time is over, and the reservation that was made for it. Target: the job."""

    wire_type: ClassVar[str] = "decision.end_migration"
    is_independent: ClassVar[bool] = True
