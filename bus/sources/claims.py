"""PersistentVolumeClaims as facts. Pure: one record in, one event out.

A tenant writes her claims, annotations too. Texts are bounded, and impossible names are dropped.

Source: Kubernetes API reference, core/v1 PersistentVolumeClaim.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from bus.amounts import NANO, observed_quantity
from bus.envelope import Event
from bus.errors import QuantityError
from bus.events.volumes import ClaimObserved, ClaimVanished
from bus.kube.watch import records
from bus.kube.watch.labels import LabelPolicy
from bus.kube.watch.records import LONGEST_NAME, Metadata, Record
from bus.sources.constraints import Anything

#: Written by the control plane when claim and volume are bound, and by schedulers when they chose the node.
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
#: The place of ``storageClassName`` in older objects; it still goes before it.
BETA_CLASS = "volume.beta.kubernetes.io/storage-class"

_MODES = frozenset({"ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"})


class Resources(msgspec.Struct):
    """The decoded part of ``spec.resources``."""

    requests: dict[str, str] | None = None


class _Spec(msgspec.Struct, rename="camel"):
    """The decoded part of ``spec``."""

    volume_name: str | None = None
    storage_class_name: str | None = None
    access_modes: list[str] | None = None
    resources: Resources | None = None
    volume_mode: str | None = None
    selector: Anything | None = None


class _Status(msgspec.Struct):
    """The decoded part of ``status``."""

    phase: str = ""


class Claim(msgspec.Struct):
    """The decoded part of a claim."""

    metadata: Metadata
    spec: _Spec | None = None
    status: _Status | None = None


_NO_SPEC, _NO_STATUS, _NO_RESOURCES = _Spec(), _Status(), Resources()


def translate(record: Record, labels: LabelPolicy) -> Event:
    """``persistentvolumeclaim.observed`` or ``persistentvolumeclaim.vanished``.

    Raises MalformedJsonError or ObservationError: park the record and list again.
    """
    found = records.decoded(record.object, Claim)
    metadata = records.identified(found.metadata)
    namespace = records.namespaced(metadata)
    fact: ClaimObserved | ClaimVanished
    if records.is_delete(record):
        fact = ClaimVanished(
            uid=metadata.uid, namespace=namespace, name=metadata.name,
            resource_version=metadata.resource_version,
        )  # fmt: skip
    else:
        spec, status = found.spec or _NO_SPEC, found.status or _NO_STATUS
        annotations = metadata.annotations or {}
        owner = records.controller(metadata)
        volume = named(spec.volume_name)
        fact = ClaimObserved(
            uid=metadata.uid,
            namespace=namespace,
            name=metadata.name,
            resource_version=metadata.resource_version,
            volume=volume,
            is_bound=bool(volume) and BIND_COMPLETED in annotations,
            is_lost=status.phase == "Lost",
            is_terminating=metadata.deletion_timestamp is not None,
            storage_class=class_of(annotations, spec.storage_class_name),
            access_modes=known_modes(spec.access_modes),
            requested_bytes=bytes_of((spec.resources or _NO_RESOURCES).requests),
            is_block=spec.volume_mode == "Block",
            has_selector=spec.selector is not None,
            selected_node=named(annotations.get(SELECTED_NODE)),
            owner=owner.uid if owner is not None else "",
        )
    return records.event_of(
        fact, record, key=fact.uid, uid=fact.uid, resource_version=fact.resource_version
    )


def named(text: str | None) -> str:
    """A name within Kubernetes' limits, else ""."""
    return (text or "")[:LONGEST_NAME]


def class_of(annotations: Mapping[str, str], name: str | None) -> str:
    """The storage class of a claim or a volume; "" for none."""
    return named(annotations[BETA_CLASS] if BETA_CLASS in annotations else name)


def known_modes(modes: Iterable[str] | None) -> tuple[str, ...]:
    """The valid access modes, sorted."""
    return tuple(sorted(_MODES.intersection(modes or ())))


def bytes_of(amounts: Mapping[str, str] | None) -> int:
    """``storage`` of some amounts in bytes, rounded up; 0 where it cannot be read."""
    try:
        nano = observed_quantity((amounts or {}).get("storage", "0"))
    except QuantityError:
        return 0
    return max(0, -(-nano // NANO))
