"""CSINodes as facts: the limit of attached volumes of each driver on a node. Pure: one record in, one event out.

Source: Kubernetes API reference, storage/v1 CSINode.
"""

from __future__ import annotations

import msgspec

from bus.envelope import Event
from bus.events.volumes import CsiNodeObserved, CsiNodeVanished
from bus.kube.watch import records
from bus.kube.watch.labels import LabelPolicy
from bus.kube.watch.records import Metadata, Record
from bus.sources.claims import named

#: Most drivers of one node in a fact.
MOST_DRIVERS = 64


class Allocatable(msgspec.Struct):
    """``allocatable`` of a driver."""

    count: int | None = None


class Driver(msgspec.Struct):
    """An entry of ``spec.drivers``."""

    name: str = ""
    allocatable: Allocatable | None = None


class _Spec(msgspec.Struct):
    """The decoded part of ``spec``."""

    drivers: list[Driver] | None = None


class CsiNode(msgspec.Struct):
    """The decoded part of a CSINode."""

    metadata: Metadata
    spec: _Spec | None = None


def translate(record: Record, labels: LabelPolicy) -> Event:
    """``csinode.observed`` or ``csinode.vanished``.

    Raises MalformedJsonError or ObservationError: park the record and list again.
    """
    found = records.decoded(record.object, CsiNode)
    metadata = records.identified(found.metadata)
    fact: CsiNodeObserved | CsiNodeVanished
    if records.is_delete(record):
        fact = CsiNodeVanished(
            uid=metadata.uid, name=metadata.name, resource_version=metadata.resource_version
        )
    else:
        drivers = found.spec.drivers if found.spec is not None else None
        limits = {
            named(one.name): min(max(0, one.allocatable.count), 2**31)
            for one in drivers or ()
            if one.allocatable is not None and one.allocatable.count is not None
        }
        fact = CsiNodeObserved(
            uid=metadata.uid,
            name=metadata.name,
            resource_version=metadata.resource_version,
            limits=dict(sorted(limits.items())[:MOST_DRIVERS]),
        )
    return records.event_of(
        fact, record, key=fact.name, uid=fact.uid, resource_version=fact.resource_version
    )
