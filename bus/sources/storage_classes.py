"""StorageClasses as facts. Pure: one record in, one event out.

Parameters are never decoded: they may name secrets.

Source: Kubernetes API reference, storage/v1 StorageClass.
"""

from __future__ import annotations

import msgspec

from bus.envelope import Event
from bus.events.volumes import StorageClassObserved, StorageClassVanished, TopologyTerm
from bus.kube.watch import records
from bus.kube.watch.labels import LabelPolicy
from bus.kube.watch.records import Metadata, Record
from bus.sources.claims import named
from bus.sources.constraints import LARGEST_CONSTRAINTS

_encode = msgspec.json.Encoder().encode


class StorageClass(msgspec.Struct, rename="camel"):
    """The decoded part of a class: it has no ``spec``."""

    metadata: Metadata
    provisioner: str = ""
    volume_binding_mode: str | None = None
    allowed_topologies: tuple[TopologyTerm, ...] | None = None


def translate(record: Record, labels: LabelPolicy) -> Event:
    """``storageclass.observed`` or ``storageclass.vanished``.

    Raises MalformedJsonError or ObservationError: park the record and list again.
    """
    found = records.decoded(record.object, StorageClass)
    metadata = records.identified(found.metadata)
    fact: StorageClassObserved | StorageClassVanished
    if records.is_delete(record):
        fact = StorageClassVanished(
            uid=metadata.uid, name=metadata.name, resource_version=metadata.resource_version
        )
    else:
        topologies = found.allowed_topologies or ()
        is_cut = len(_encode(topologies)) > LARGEST_CONSTRAINTS
        fact = StorageClassObserved(
            uid=metadata.uid,
            name=metadata.name,
            resource_version=metadata.resource_version,
            provisioner=named(found.provisioner),
            waits_for_consumer=found.volume_binding_mode == "WaitForFirstConsumer",
            allowed_topologies=() if is_cut else topologies,
            is_cut=is_cut,
        )
    return records.event_of(
        fact, record, key=fact.uid, uid=fact.uid, resource_version=fact.resource_version
    )
