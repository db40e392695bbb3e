"""Disruption budgets as facts. Pure: one record in, one event out.

Source: Kubernetes API reference, policy/v1 PodDisruptionBudget.
"""

from __future__ import annotations

from typing import Any

import msgspec

from bus.envelope import Event
from bus.events.constraints import LabelSelector, keys_of
from bus.events.pods import DisruptionBudgetObserved, DisruptionBudgetVanished
from bus.kube.watch import records
from bus.kube.watch.labels import LabelPolicy
from bus.kube.watch.records import Metadata, Record
from bus.sources.constraints import LARGEST_CONSTRAINTS, is_kept
from bus.sources.sealed_users import sealed

#: Most names of departing pods.
MOST_DISRUPTED = 64

_encode = msgspec.json.Encoder().encode


class _Spec(msgspec.Struct):
    """The decoded part of ``spec``."""

    selector: LabelSelector | None = None


class _Status(msgspec.Struct, rename="camel"):
    """The decoded part of ``status``."""

    disruptions_allowed: int = 0
    disrupted_pods: dict[str, Any] | None = None


class DisruptionBudget(msgspec.Struct):
    """The decoded part of a disruption budget."""

    metadata: Metadata
    spec: _Spec | None = None
    status: _Status | None = None


_NO_SPEC, _NO_STATUS = _Spec(), _Status()


def translate(record: Record, labels: LabelPolicy) -> Event:
    """``disruptionbudget.observed`` or ``disruptionbudget.vanished``.

    Raises MalformedJsonError or ObservationError: park the record and list again.
    """
    found = records.decoded(record.object, DisruptionBudget)
    metadata = records.identified(found.metadata)
    namespace = records.namespaced(metadata)
    fact: DisruptionBudgetObserved | DisruptionBudgetVanished
    if records.is_delete(record):
        fact = DisruptionBudgetVanished(
            uid=metadata.uid, namespace=namespace, name=metadata.name,
            resource_version=metadata.resource_version,
        )  # fmt: skip
    else:
        spec, status = found.spec or _NO_SPEC, found.status or _NO_STATUS
        selector = sealed(spec.selector, LabelSelector | None, labels)
        is_cut = len(_encode(selector)) > LARGEST_CONSTRAINTS
        selector = None if is_cut else selector
        fact = DisruptionBudgetObserved(
            uid=metadata.uid,
            namespace=namespace,
            name=metadata.name,
            resource_version=metadata.resource_version,
            selector=selector,
            allowed=status.disruptions_allowed,
            disrupted=tuple(sorted(status.disrupted_pods or ())[:MOST_DISRUPTED]),
            unkept_labels=tuple(
                sorted(one for one in keys_of(selector) if not is_kept(one, labels))
            ),
            is_cut=is_cut,
        )
    return records.event_of(
        fact, record, key=fact.uid, uid=fact.uid, resource_version=fact.resource_version
    )
