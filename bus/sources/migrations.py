"""Koordinator's PodMigrationJobs as facts. Pure: one record in, one event out.

The template of a reservation stays in the object: it may hold whole pods with their environment.

Source: koordinator-sh/koordinator, scheduling.koordinator.sh/v1alpha1 PodMigrationJob.
"""

from __future__ import annotations

import msgspec

from bus.envelope import Event
from bus.events.migrations import (
    MigrationCondition,
    MigrationObserved,
    MigrationVanished,
    MovedPod,
)
from bus.kube.watch import records
from bus.kube.watch.labels import LabelPolicy
from bus.kube.watch.records import LONGEST_ID, LONGEST_NAME, Metadata, Record

#: Longest duration, mode, phase, type or reason that is carried on; and longest message.
LONGEST_WORD = 64
LONGEST_MESSAGE = 512
#: Most conditions of a status that one fact carries.
MOST_CONDITIONS = 16


class PodReference(msgspec.Struct):
    """``spec.podRef`` and ``status.podRef``."""

    namespace: str = ""
    name: str = ""
    uid: str = ""


class ReservationReference(msgspec.Struct):
    """``spec.reservationOptions.reservationRef``."""

    name: str = ""


class ReservationOptions(msgspec.Struct, rename="camel"):
    """``spec.reservationOptions``."""

    reservation_ref: ReservationReference | None = None


class _Spec(msgspec.Struct, rename="camel"):
    """What is decoded of ``spec``."""

    paused: bool = False
    ttl: str | None = None
    mode: str = ""
    pod_ref: PodReference | None = None
    reservation_options: ReservationOptions | None = None


class WrittenCondition(msgspec.Struct):
    """An entry of ``status.conditions``."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class _Status(msgspec.Struct, rename="camel"):
    """What is decoded of ``status``."""

    phase: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    node_name: str = ""
    pod_ref: PodReference | None = None
    conditions: list[WrittenCondition] | None = None


class Migration(msgspec.Struct):
    """What is decoded of a PodMigrationJob."""

    metadata: Metadata
    spec: _Spec | None = None
    status: _Status | None = None


_NO_SPEC, _NO_STATUS, _NO_POD = _Spec(), _Status(), PodReference()


def translate(record: Record, labels: LabelPolicy) -> Event:
    """``podmigrationjob.observed`` or ``podmigrationjob.vanished``.

    Raises MalformedJsonError or ObservationError: park the record and list again.
    """
    found = records.decoded(record.object, Migration)
    metadata = records.identified(found.metadata)
    fact: MigrationObserved | MigrationVanished
    if records.is_delete(record):
        fact = MigrationVanished(
            uid=metadata.uid, name=metadata.name, resource_version=metadata.resource_version
        )
    else:
        fact = _observed(metadata, found.spec or _NO_SPEC, found.status or _NO_STATUS)
    return records.event_of(
        fact, record, key=fact.uid, uid=fact.uid, resource_version=fact.resource_version
    )


def _observed(metadata: Metadata, spec: _Spec, status: _Status) -> MigrationObserved:
    pod, options = spec.pod_ref or _NO_POD, spec.reservation_options
    reference = options.reservation_ref if options is not None else None
    new = status.pod_ref
    return MigrationObserved(
        uid=metadata.uid,
        name=metadata.name,
        resource_version=metadata.resource_version,
        created=records.stamp(metadata.creation_timestamp),
        is_terminating=metadata.deletion_timestamp is not None,
        paused=spec.paused,
        ttl=None if spec.ttl is None else spec.ttl[: LONGEST_WORD + 1],
        mode=spec.mode[:LONGEST_WORD],
        pod_namespace=pod.namespace[:LONGEST_NAME],
        pod_name=pod.name[:LONGEST_NAME],
        pod_uid=pod.uid[:LONGEST_ID],
        reservation=reference.name[:LONGEST_NAME] if reference is not None else "",
        phase=status.phase[:LONGEST_WORD],
        status=status.status[:LONGEST_WORD],
        reason=status.reason[:LONGEST_WORD],
        message=status.message[:LONGEST_MESSAGE],
        node=status.node_name[:LONGEST_NAME],
        new_pod=None if new is None else _moved(new),
        conditions=tuple(map(_condition, (status.conditions or ())[:MOST_CONDITIONS])),
    )


def _moved(pod: PodReference) -> MovedPod:
    return MovedPod(pod.namespace[:LONGEST_NAME], pod.name[:LONGEST_NAME], pod.uid[:LONGEST_ID])


def _condition(one: WrittenCondition) -> MigrationCondition:
    return MigrationCondition(
        one.type[:LONGEST_WORD], one.status == "True", one.reason[:LONGEST_WORD],
        one.message[:LONGEST_MESSAGE],
    )  # fmt: skip
