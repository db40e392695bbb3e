"""Claims of devices, their templates, slices and classes as facts. Pure: one record in, one event out.

A claim is written a dozen times in its life, mostly for its reservation; the source skips versions without news.

Source: Kubernetes API reference, resource.k8s.io/v1; docs/devices.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from bus.envelope import Event
from bus.errors import DemandError
from bus.events.devices import (
    Allocation,
    Device,
    DeviceAsk,
    DeviceClassObserved,
    DeviceClassVanished,
    DeviceRequest,
    DeviceResult,
    ResourceClaimObserved,
    ResourceClaimTemplateObserved,
    ResourceClaimTemplateVanished,
    ResourceClaimVanished,
    ResourceSliceObserved,
    ResourceSliceVanished,
)
from bus.events.vocabulary import Fact
from bus.kube.watch import records
from bus.kube.watch.labels import LabelPolicy, named, quota_labels, user_named
from bus.kube.watch.records import LONGEST_NAME, Metadata, Record

#: Kubernetes' own bounds of a claim and of a slice.
MOST_REQUESTS = 32
MOST_ASKS = 8
MOST_RESULTS = 32
MOST_DEVICES = 128
MOST_QUANTITIES = 32
LONGEST_QUANTITY = 32

#: Annotations of claims made by Kubernetes for a pod.
GENERATED = frozenset(
    ("resource.kubernetes.io/pod-claim-name", "resource.kubernetes.io/extended-resource-claim")
)
#: Published attributes of a device, without the domain of its driver.
ATTRIBUTES = ("type", "productName", "profile", "uuid", "parentUUID")


class Exactly(msgspec.Struct, rename="camel"):
    """``exactly`` of a request, or an entry of its ``firstAvailable``."""

    device_class_name: str = ""
    allocation_mode: str = ""
    count: int = 1
    admin_access: bool | None = None


class Request(msgspec.Struct, rename="camel"):
    """An entry of ``spec.devices.requests``."""

    name: str = ""
    exactly: Exactly | None = None
    first_available: list[Exactly] | None = None


class Devices(msgspec.Struct):
    """``spec.devices`` of a claim."""

    requests: list[Request] | None = None


class ClaimSpec(msgspec.Struct):
    """The decoded part of a claim's ``spec``."""

    devices: Devices | None = None


_RESULT = {
    "share_id": "shareID",
    "admin_access": "adminAccess",
    "consumed_capacity": "consumedCapacity",
}


class Result(msgspec.Struct, rename=_RESULT):
    """An entry of ``status.allocation.devices.results``."""

    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None
    share_id: str | None = None
    consumed_capacity: dict[str, str] | None = None


class Results(msgspec.Struct):
    """``status.allocation.devices``."""

    results: list[Result] | None = None


class Allocated(msgspec.Struct, rename="camel"):
    """``status.allocation``."""

    devices: Results | None = None
    allocation_timestamp: str | None = None


class ClaimStatus(msgspec.Struct):
    """The decoded part of a claim's ``status``: not ``devices``, not ``reservedFor``."""

    allocation: Allocated | None = None


class Claim(msgspec.Struct):
    """The decoded part of a claim."""

    metadata: Metadata
    spec: ClaimSpec | None = None
    status: ClaimStatus | None = None


class TemplateSpec(msgspec.Struct):
    """The decoded part of a template's ``spec``."""

    spec: ClaimSpec | None = None


class Template(msgspec.Struct):
    """The decoded part of a template."""

    metadata: Metadata
    spec: TemplateSpec | None = None


def translate_claim(record: Record, labels: LabelPolicy) -> Event:
    """``resourceclaim.observed``, or ``resourceclaim.vanished`` with the last state.

    Raises MalformedJsonError or ObservationError.
    """
    claim = records.decoded(record.object, Claim)
    metadata = records.identified(claim.metadata)
    annotations = metadata.annotations or {}
    owner = records.controller(metadata)
    fact = (ResourceClaimVanished if records.is_delete(record) else ResourceClaimObserved)(
        uid=metadata.uid,
        namespace=records.namespaced(metadata),
        name=metadata.name,
        resource_version=metadata.resource_version,
        created=records.stamp(metadata.creation_timestamp),
        owner=owner,
        is_generated=owner is not None
        and owner.kind == "Pod"
        and not GENERATED.isdisjoint(annotations),
        team=named(labels.team, metadata.labels),
        user=user_named(labels, metadata.labels),
        labels=quota_labels(metadata.labels or {}),
        requests=_requests(claim.spec),
        allocation=_allocation(claim.status),
    )
    return _event(fact, record, fact.uid)


def is_generated(metadata: Mapping[str, Any]) -> bool:
    """Whether a claim was made by Kubernetes for a pod, by its own annotations. ``metadata`` comes from a review."""
    owners = metadata.get("ownerReferences")
    return not GENERATED.isdisjoint(metadata.get("annotations") or {}) and any(
        isinstance(one, dict) and one.get("controller") is True and one.get("kind") == "Pod"
        for one in (owners if isinstance(owners, list) else ())
    )


def requests_of(claim: Mapping[str, Any]) -> tuple[DeviceRequest, ...]:
    """The requests of a claim, as in its fact. ``claim`` is a review's object. Raises DemandError."""
    try:
        return _requests(msgspec.convert(claim.get("spec"), ClaimSpec | None))
    except msgspec.ValidationError as error:
        raise DemandError(path="spec", reason=str(error)[:200]) from None


def translate_template(record: Record, labels: LabelPolicy) -> Event:
    """``resourceclaimtemplate.observed`` or ``resourceclaimtemplate.vanished``. Raises MalformedJsonError or ObservationError."""
    template = records.decoded(record.object, Template)
    metadata = records.identified(template.metadata)
    namespace = records.namespaced(metadata)
    fact: ResourceClaimTemplateObserved | ResourceClaimTemplateVanished
    if records.is_delete(record):
        fact = ResourceClaimTemplateVanished(
            uid=metadata.uid, namespace=namespace, name=metadata.name,
            resource_version=metadata.resource_version,
        )  # fmt: skip
    else:
        fact = ResourceClaimTemplateObserved(
            uid=metadata.uid, namespace=namespace, name=metadata.name,
            resource_version=metadata.resource_version,
            requests=_requests(template.spec.spec if template.spec else None),
        )  # fmt: skip
    return _event(fact, record, fact.uid)


def _requests(spec: ClaimSpec | None) -> tuple[DeviceRequest, ...]:
    found = (spec.devices.requests if spec and spec.devices else None) or ()
    return tuple(
        DeviceRequest(
            one.name[:LONGEST_NAME],
            tuple(_ask(ask) for ask in ([one.exactly] if one.exactly else one.first_available or ())[:MOST_ASKS]),
        )
        for one in found[:MOST_REQUESTS]
    )  # fmt: skip


def _ask(one: Exactly) -> DeviceAsk:
    return DeviceAsk(
        one.device_class_name[:LONGEST_NAME],
        "All" if one.allocation_mode == "All" else "",
        min(max(one.count, 0), 2**31),
        bool(one.admin_access),
    )


def _allocation(status: ClaimStatus | None) -> Allocation | None:
    found = status.allocation if status else None
    if found is None:
        return None
    results = (found.devices.results if found.devices else None) or ()
    return Allocation(
        records.stamp(found.allocation_timestamp),
        tuple(
            DeviceResult(
                one.request, one.driver, one.pool, one.device, bool(one.admin_access),
                one.share_id or "",
                _quantities({own(n, one.driver): q for n, q in (one.consumed_capacity or {}).items()}),
            )
            for one in results[:MOST_RESULTS]
        ),
    )  # fmt: skip


class Quantity(msgspec.Struct):
    """A capacity or a counter."""

    value: str = ""


class Attribute(msgspec.Struct):
    """An attribute of a device; only texts are published. In examples of drivers it is the bare text."""

    string: str | None = None


class Consumption(msgspec.Struct, rename="camel"):
    """An entry of ``consumesCounters``."""

    counter_set: str = ""
    counters: dict[str, Quantity] | None = None


class SliceDevice(msgspec.Struct, rename="camel"):
    """An entry of ``spec.devices`` of a slice."""

    name: str = ""
    node_name: str | None = None
    attributes: dict[str, Attribute | str] | None = None
    capacity: dict[str, Quantity] | None = None
    consumes_counters: list[Consumption] | None = None
    allow_multiple_allocations: bool | None = None


class Pool(msgspec.Struct, rename="camel"):
    """``spec.pool`` of a slice."""

    name: str = ""
    generation: int = 0
    resource_slice_count: int = 0


class CounterSet(msgspec.Struct):
    """An entry of ``spec.sharedCounters``."""

    name: str = ""
    counters: dict[str, Quantity] | None = None


class SliceSpec(msgspec.Struct, rename="camel"):
    """The decoded part of a slice's ``spec``."""

    driver: str = ""
    pool: Pool | None = None
    node_name: str | None = None
    devices: list[SliceDevice] | None = None
    shared_counters: list[CounterSet] | None = None


class Slice(msgspec.Struct):
    """The decoded part of a slice."""

    metadata: Metadata
    spec: SliceSpec | None = None


def translate_slice(record: Record, labels: LabelPolicy) -> Event:
    """``resourceslice.observed``, or ``resourceslice.vanished`` with the last state.

    Raises MalformedJsonError or ObservationError.
    """
    found = records.decoded(record.object, Slice)
    metadata = records.identified(found.metadata)
    spec = found.spec or SliceSpec()
    pool = spec.pool or Pool()
    fact = (ResourceSliceVanished if records.is_delete(record) else ResourceSliceObserved)(
        uid=metadata.uid,
        name=metadata.name,
        resource_version=metadata.resource_version,
        driver=spec.driver,
        pool=pool.name,
        generation=pool.generation,
        slices=pool.resource_slice_count,
        node=spec.node_name or "",
        devices=tuple(_device(one, spec.driver) for one in (spec.devices or ())[:MOST_DEVICES]),
        counters={
            one.name: _values(one.counters, spec.driver) for one in spec.shared_counters or ()
        },
    )
    return _event(fact, record, fact.uid)


def _device(one: SliceDevice, driver: str) -> Device:
    attributes: dict[str, str] = {}
    for name, value in (one.attributes or {}).items():
        text = value.string if isinstance(value, Attribute) else value
        if (short := own(name, driver)) in ATTRIBUTES and text is not None:
            attributes[short] = text[:LONGEST_NAME]
    return Device(
        one.name,
        one.node_name or "",
        dict(sorted(attributes.items())),
        _values(one.capacity, driver),
        {
            taken.counter_set: _values(taken.counters, driver)
            for taken in one.consumes_counters or ()
        },
        bool(one.allow_multiple_allocations),
    )


def _values(found: Mapping[str, Quantity] | None, driver: str) -> dict[str, str]:
    return _quantities({own(name, driver): one.value for name, one in (found or {}).items()})


def _quantities(found: Mapping[str, str] | None) -> dict[str, str]:
    kept = sorted((found or {}).items())[:MOST_QUANTITIES]
    return {name: text[:LONGEST_QUANTITY] for name, text in kept}


def own(name: str, driver: str) -> str:
    """``name`` without the domain of its driver, the default domain."""
    return name.removeprefix(f"{driver}/")


class ClassSpec(msgspec.Struct, rename="camel"):
    """The decoded part of a class's ``spec``."""

    extended_resource_name: str | None = None


class DeviceClass(msgspec.Struct):
    """The decoded part of a class."""

    metadata: Metadata
    spec: ClassSpec | None = None


def translate_class(record: Record, labels: LabelPolicy) -> Event:
    """``deviceclass.observed`` or ``deviceclass.vanished``. Raises MalformedJsonError or ObservationError."""
    found = records.decoded(record.object, DeviceClass)
    metadata = records.identified(found.metadata)
    fact: DeviceClassObserved | DeviceClassVanished
    if records.is_delete(record):
        fact = DeviceClassVanished(
            uid=metadata.uid, name=metadata.name, resource_version=metadata.resource_version
        )
    else:
        spec = found.spec or ClassSpec()
        fact = DeviceClassObserved(
            uid=metadata.uid,
            name=metadata.name,
            resource_version=metadata.resource_version,
            extended_name=spec.extended_resource_name or "",
        )
    return _event(fact, record, fact.name)


def _event(fact: Fact, record: Record, key: str) -> Event:
    uid, version = fact.uid, fact.resource_version  # type: ignore[attr-defined]
    return records.event_of(fact, record, key=key, uid=uid, resource_version=version)
