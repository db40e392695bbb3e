"""Priority classes as facts: the number of each name. Pure: one record in, one event out.

Source: Kubernetes API reference, scheduling.k8s.io/v1 PriorityClass.
"""

from __future__ import annotations

import msgspec

from bus.envelope import Event
from bus.events.priorities import NEVER, PriorityClassObserved, PriorityClassVanished
from bus.kube.watch import records
from bus.kube.watch.labels import LabelPolicy
from bus.kube.watch.records import Metadata, Record


class PriorityClass(msgspec.Struct, rename="camel"):
    """The decoded part of a priority class."""

    metadata: Metadata
    value: int = 0
    global_default: bool | None = None
    preemption_policy: str | None = None


def translate(record: Record, labels: LabelPolicy) -> Event:
    """``priorityclass.observed`` or ``priorityclass.vanished``.

    Raises MalformedJsonError or ObservationError: park the record and list again.
    """
    found = records.decoded(record.object, PriorityClass)
    metadata = records.identified(found.metadata)
    fact: PriorityClassObserved | PriorityClassVanished
    if records.is_delete(record):
        fact = PriorityClassVanished(
            uid=metadata.uid, name=metadata.name, resource_version=metadata.resource_version
        )
    else:
        fact = PriorityClassObserved(
            uid=metadata.uid,
            name=metadata.name,
            resource_version=metadata.resource_version,
            value=found.value,
            is_default=bool(found.global_default),
            preemption_policy=NEVER if found.preemption_policy == NEVER else "PreemptLowerPriority",
        )
    return records.event_of(
        fact, record, key=fact.name, uid=fact.uid, resource_version=fact.resource_version
    )
