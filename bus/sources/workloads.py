"""Workloads as facts: the links of the owner chain. Pure: one record in, one event out.

Deployments, ReplicaSets, StatefulSets, Jobs and CronJobs differ here only by their kind, which
items of a list do not carry; so each source says its own.

Source: Kubernetes API reference, apps/v1 and batch/v1; ``accounting.md`` section 4 (workload).
"""

from __future__ import annotations

import msgspec

from bus.envelope import Event
from bus.events.workloads import WorkloadObserved, WorkloadVanished
from bus.sources import records
from bus.sources.labels import LabelPolicy, kept_labels
from bus.sources.records import Metadata, Record


class Workload(msgspec.Struct):
    """What is decoded of a workload: no template, so none of its environment or arguments."""

    metadata: Metadata


def translate(record: Record, labels: LabelPolicy, *, kind: str) -> Event:
    """``workload.observed`` or ``workload.vanished`` of one ``kind``, e.g. ``Deployment``.

    Raises MalformedJsonError or ObservationError: park the record and list again.
    """
    metadata = records.identified(records.decoded(record.object, Workload).metadata)
    namespace = records.namespaced(metadata)
    fact: WorkloadObserved | WorkloadVanished
    if records.is_delete(record):
        fact = WorkloadVanished(
            uid=metadata.uid,
            kind=kind,
            namespace=namespace,
            name=metadata.name,
            resource_version=metadata.resource_version,
        )
    else:
        fact = WorkloadObserved(
            uid=metadata.uid,
            kind=kind,
            namespace=namespace,
            name=metadata.name,
            resource_version=metadata.resource_version,
            created=records.stamp(metadata.creation_timestamp),
            owner=records.controller(metadata),
            labels=kept_labels(metadata.labels, labels)[0],
        )
    return records.said(
        fact, record, key=fact.uid, uid=fact.uid, resource_version=fact.resource_version
    )
