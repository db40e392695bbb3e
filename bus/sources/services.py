"""Services of training jobs as facts. Pure: one record in, one event out.

Source: Kubernetes API reference, core/v1 Service; Kubeflow training-operator v1, ``common/service.go``.
"""

from __future__ import annotations

import msgspec

from bus.envelope import Event
from bus.events.services import ServiceObserved, ServiceVanished
from bus.kube.watch import records
from bus.kube.watch.labels import LabelPolicy
from bus.kube.watch.records import Metadata, Record

_PREFIX = "training.kubeflow.org/"
#: Owners of the followed services: other services of a cluster are not needed.
SELECTOR = f"{_PREFIX}job-name"


class Service(msgspec.Struct):
    """The decoded part of a Service."""

    metadata: Metadata


def translate(record: Record, labels: LabelPolicy) -> Event:
    """``service.observed`` or ``service.vanished``.

    Raises MalformedJsonError or ObservationError: park the record and list again.
    """
    found = records.decoded(record.object, Service)
    metadata = records.identified(found.metadata)
    namespace = records.namespaced(metadata)
    fact: ServiceObserved | ServiceVanished
    if records.is_delete(record):
        fact = ServiceVanished(
            uid=metadata.uid, namespace=namespace, name=metadata.name,
            resource_version=metadata.resource_version,
        )  # fmt: skip
    else:
        own = metadata.labels or {}
        fact = ServiceObserved(
            uid=metadata.uid, namespace=namespace, name=metadata.name,
            resource_version=metadata.resource_version, owner=records.controller(metadata),
            job=own.get(SELECTOR, ""), type=own.get(f"{_PREFIX}replica-type", ""),
            index=own.get(f"{_PREFIX}replica-index", ""),
            is_terminating=metadata.deletion_timestamp is not None,
        )  # fmt: skip
    return records.event_of(
        fact, record, key=fact.uid, uid=fact.uid, resource_version=fact.resource_version
    )
