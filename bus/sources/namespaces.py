"""Namespaces as facts: their owners. Pure: one record in, one event out.

Source: Kubernetes API reference, core/v1 Namespace; docs/accounting.md (team, user).
"""

from __future__ import annotations

import msgspec

from bus.envelope import Event
from bus.events.namespaces import NamespaceObserved, NamespaceVanished
from bus.kube.watch import records
from bus.kube.watch.labels import LabelPolicy, kept_labels, named, user_named
from bus.kube.watch.records import Metadata, Record


class Namespace(msgspec.Struct):
    """The decoded part of a namespace."""

    metadata: Metadata


def translate(record: Record, labels: LabelPolicy) -> Event:
    """``namespace.observed`` or ``namespace.vanished``; its user is the label's, else the owner
    annotation's.

    Raises MalformedJsonError or ObservationError: park the record and list again.
    """
    metadata = records.identified(records.decoded(record.object, Namespace).metadata)
    if records.is_delete(record):
        vanished = NamespaceVanished(
            uid=metadata.uid, name=metadata.name, resource_version=metadata.resource_version
        )
        return _event(vanished, record)
    observed = NamespaceObserved(
        uid=metadata.uid,
        name=metadata.name,
        resource_version=metadata.resource_version,
        created=records.stamp(metadata.creation_timestamp),
        team=named(labels.team, metadata.labels),
        user=user_named(labels, metadata.labels, metadata.annotations),
        labels=kept_labels(metadata.labels, labels)[0],
    )
    return _event(observed, record)


def _event(fact: NamespaceObserved | NamespaceVanished, record: Record) -> Event:
    return records.event_of(
        fact, record, key=fact.name, uid=fact.uid, resource_version=fact.resource_version
    )
