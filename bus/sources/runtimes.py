"""Training runtimes of Kubeflow Trainer as facts. Pure: one record in, one event out.

Source: Kubeflow Trainer v2.2, ``trainer.kubeflow.org/v1alpha1``; docs/jobs.md.
"""

from __future__ import annotations

from typing import Any

import msgspec

from bus.envelope import Event
from bus.errors import DemandError
from bus.events.runtimes import RuntimeTemplate, TrainingRuntimeObserved, TrainingRuntimeVanished
from bus.kube.kinds.runtime_use import NAMESPACED_KIND
from bus.kube.kinds.runtimes import template_of
from bus.kube.watch import records
from bus.kube.watch.labels import LabelPolicy
from bus.kube.watch.records import Metadata, Record, TooLargeError


class TrainingRuntime(msgspec.Struct):
    """What is decoded of a runtime. Only the request of its pods is published of ``spec``."""

    metadata: Metadata
    spec: Any = None


def translate(record: Record, labels: LabelPolicy, *, kind: str) -> Event:
    """``trainingruntime.observed`` or ``trainingruntime.vanished``. Raises MalformedJsonError or ObservationError.

    A runtime unreadable, or too large for a message, is published without its template: a TrainJob of it has an
    unknown demand.
    """
    runtime = records.decoded(record.object, TrainingRuntime)
    metadata = records.identified(runtime.metadata)
    namespace = records.namespaced(metadata) if kind == NAMESPACED_KIND else ""
    if records.is_delete(record):
        fact = TrainingRuntimeVanished(
            kind=kind, uid=metadata.uid, namespace=namespace, name=metadata.name,
            resource_version=metadata.resource_version,
        )  # fmt: skip
        return records.event_of(fact, record, key=fact.uid, uid=fact.uid, resource_version=fact.resource_version)  # fmt: skip
    try:
        return _event(record, metadata, kind, namespace, _template(runtime.spec))
    except TooLargeError:
        return _event(record, metadata, kind, namespace, None)


def _event(
    record: Record, metadata: Metadata, kind: str, namespace: str, template: RuntimeTemplate | None
) -> Event:
    fact = TrainingRuntimeObserved(
        kind=kind, uid=metadata.uid, namespace=namespace, name=metadata.name,
        resource_version=metadata.resource_version, template=template,
    )  # fmt: skip
    return records.event_of(
        fact, record, key=fact.uid, uid=fact.uid, resource_version=fact.resource_version
    )


def _template(spec: Any) -> RuntimeTemplate | None:
    try:
        return template_of({"spec": spec})
    except DemandError:
        return None
