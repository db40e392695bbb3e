"""Workloads as facts: the links of the owner chain, and the demand of each. Pure: one record in, one event out.

The governed kinds differ here only by their entry in :mod:`bus.kube.kinds`. Items of a list have no kind; so each
source names its own. Of a template only amounts and the labels of quotas leave: no environment, no arguments.
Reading them costs as much as decoding the record, 35 us for two containers, and only workloads pay it.

Source: Kubernetes API reference, apps/v1 and batch/v1; docs/accounting.md (workload); docs/quotas.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from bus.envelope import Event
from bus.errors import DemandError
from bus.events.workloads import (
    MANAGED_ELSEWHERE,
    UNREADABLE,
    Training,
    WorkloadObserved,
    WorkloadVanished,
)
from bus.kube import kinds
from bus.kube.kinds import Ask, Kind
from bus.kube.watch import records
from bus.kube.watch.labels import LabelPolicy, kept_texts, quota_labels
from bus.kube.watch.records import Metadata, Record, TooLargeError
from bus.sources import training


class WorkloadMetadata(Metadata, rename="camel"):
    """The decoded part of a workload's metadata."""

    generation: int = 0


class Workload(msgspec.Struct):
    """The decoded part of a workload. Of ``spec`` and ``status`` only the request is published."""

    metadata: WorkloadMetadata
    spec: Any = None
    status: Any = None


def translate(record: Record, labels: LabelPolicy, *, kind: Kind) -> Event:
    """``workload.observed`` or ``workload.vanished`` of one ``kind``.

    An object with an unreadable demand, or one too large for a message, is published with a note, as it exists.
    Raises MalformedJsonError or ObservationError: park the record and list again.
    """
    workload = records.decoded(record.object, Workload)
    metadata = workload.metadata
    records.identified(metadata)
    namespace = records.namespaced(metadata)
    if records.is_delete(record):
        return _event(
            WorkloadVanished(
                uid=metadata.uid,
                kind=kind.kind,
                namespace=namespace,
                name=metadata.name,
                resource_version=metadata.resource_version,
            ),
            record,
        )
    ask = _ask(workload, kind)
    run = training.training_of(kind.kind, metadata, workload.spec, workload.status)
    try:
        return _event(_observed(metadata, namespace, ask, run, labels, kind), record)
    except TooLargeError:
        # Thousands of resource names: no API server of today schedules that, and it must not hide a workload.
        return _event(_observed(metadata, namespace, None, None, labels, kind), record)


def _observed(
    metadata: WorkloadMetadata, namespace: str, ask: Ask | None, run: Training | None, labels: LabelPolicy,
    kind: Kind,
) -> WorkloadObserved:  # fmt: skip
    own = metadata.labels or {}
    quota = ask.labels if ask else quota_labels(own)
    texts = kept_texts(own, metadata.annotations, labels)
    return WorkloadObserved(
        uid=metadata.uid,
        kind=kind.kind,
        namespace=namespace,
        name=metadata.name,
        resource_version=metadata.resource_version,
        created=records.stamp(metadata.creation_timestamp),
        owner=records.controller(metadata),
        labels=texts.labels | quota,
        annotations=texts.annotations,
        demand=ask.demand if ask else None,
        pods=ask.pods if ask else 0,
        deadline_s=ask.deadline_s if ask else None,
        suspended=ask.suspended if ask else False,
        per_replica=ask.per_replica if ask else None,
        replicas=ask.replicas if ask else None,
        wanted=ask.wanted if ask else {},
        priority_class=ask.priority_class if ask else "",
        held=ask.held if ask else False,
        unstated=_counted(ask.unstated) if ask else {},
        is_terminating=metadata.deletion_timestamp is not None,
        training=run,
        runtime=(ask.runtime or None) if ask else None,
        generation=metadata.generation,
        notes=records.notes(
            (UNREADABLE, ask is None),
            (MANAGED_ELSEWHERE, ask is not None and bool(ask.managed_by)),
            (training.UNREADABLE, run is None and kind.kind in training.LAYOUTS),
        ),
    )


def _event(fact: WorkloadObserved | WorkloadVanished, record: Record) -> Event:
    return records.event_of(
        fact, record, key=fact.uid, uid=fact.uid, resource_version=fact.resource_version
    )


def _ask(workload: Workload, kind: Kind) -> Ask | None:
    """Its demand; None if it is unreadable."""
    metadata = workload.metadata
    about = {"labels": metadata.labels, "annotations": metadata.annotations}
    try:
        return kinds.asked(
            kind, {"metadata": about, "spec": workload.spec, "status": workload.status}
        )
    except DemandError:
        return None


def _counted(unstated: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """How many containers lack each limit: their names are a tenant's text, and stay in the cluster."""
    return {
        key: (f"{len(names)} container{'s' * (len(names) > 1)}",) for key, names in unstated.items()
    }
