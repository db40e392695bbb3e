"""The row of a PodMigrationJob. Pure.

Source: koordinator-sh/koordinator, scheduling.koordinator.sh/v1alpha1 PodMigrationJob; docs/migration.md.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from bus.clock import parse_stamp
from bus.errors import TimestampError
from bus.events.migrations import MigrationCondition, MigrationObserved, MovedPod
from projections.cluster.reservations import go_duration_us


class Migration(msgspec.Struct, gc=False):
    """A PodMigrationJob. Times are microseconds UTC."""

    kind: ClassVar[str] = "PodMigrationJob"
    namespace: ClassVar[str] = ""

    uid: str
    name: str
    version: str
    seen_us: int
    created_us: int
    is_terminating: bool
    is_paused: bool
    #: None where none is stated, and where it is no duration.
    ttl_us: int | None
    mode: str
    pod_namespace: str
    pod_name: str
    pod_uid: str
    reservation: str
    phase: str
    status: str
    reason: str
    message: str
    node: str
    new_pod: MovedPod | None
    conditions: tuple[MigrationCondition, ...]
    last_us: int = 0
    listed_us: int = 0


def migration(fact: MigrationObserved, time_us: int, known: Migration | None) -> Migration:
    """The row of a PodMigrationJob."""
    return Migration(
        fact.uid, fact.name, fact.resource_version, time_us, _us(fact.created, time_us), fact.is_terminating, fact.paused,
        None if fact.ttl is None else go_duration_us(fact.ttl), fact.mode, fact.pod_namespace, fact.pod_name, fact.pod_uid,
        fact.reservation, fact.phase, fact.status, fact.reason, fact.message, fact.node, fact.new_pod, fact.conditions,
        time_us,
    )  # fmt: skip


def _us(stamp: str | None, otherwise: int) -> int:
    try:
        return parse_stamp(stamp) if stamp else otherwise
    except TimestampError:
        return otherwise
