"""The rows of devices that are given out by claim: classes, templates of claims, claims and slices. Pure.

Claims are as many as pods, so what many of them say is one object in memory. Devices of a slice are kept encoded: they
are read where a claim is given one.
"""

from __future__ import annotations

from functools import lru_cache
from sys import intern
from typing import ClassVar

import msgspec

from bus.events.devices import (
    Allocation,
    Device,
    DeviceClassObserved,
    DeviceRequest,
    ResourceClaimObserved,
    ResourceClaimTemplateObserved,
    ResourceSliceObserved,
)
from bus.events.pods import Owner

Requests = tuple[DeviceRequest, ...]


class DeviceClass(msgspec.Struct, gc=False):
    """A class of devices."""

    kind: ClassVar[str] = "DeviceClass"
    namespace: ClassVar[str] = ""

    uid: str
    name: str
    version: str
    seen_us: int
    #: The extended resource that it serves; "" = none.
    extended_name: str = ""
    last_us: int = 0
    listed_us: int = 0


class ClaimTemplate(msgspec.Struct, gc=False):
    """A template of claims of devices."""

    kind: ClassVar[str] = "ResourceClaimTemplate"

    uid: str
    namespace: str
    name: str
    version: str
    seen_us: int
    #: Shared: never changed.
    requests: Requests = ()
    last_us: int = 0
    listed_us: int = 0


class DeviceClaim(msgspec.Struct, gc=False):
    """A claim of devices."""

    kind: ClassVar[str] = "ResourceClaim"

    uid: str
    namespace: str
    name: str
    version: str
    seen_us: int
    owner: Owner | None = None
    #: Kubernetes made it for its owner, a pod.
    is_generated: bool = False
    #: Shared: never changed.
    requests: Requests = ()
    allocation: Allocation | None = None
    last_us: int = 0
    listed_us: int = 0


class DeviceSlice(msgspec.Struct, gc=False):
    """Devices that a driver offers. :meth:`devices` and :meth:`counters` decode what ``offered`` holds."""

    kind: ClassVar[str] = "ResourceSlice"
    namespace: ClassVar[str] = ""

    uid: str
    name: str
    version: str
    seen_us: int
    driver: str = ""
    pool: str = ""
    generation: int = 0
    node: str = ""
    offered: bytes = b""
    last_us: int = 0
    listed_us: int = 0

    def devices(self) -> tuple[Device, ...]:
        """Its devices."""
        return _offered(self.offered).devices

    def counters(self) -> dict[str, dict[str, str]]:
        """Counters that devices share: set to counter to quantity."""
        return _offered(self.offered).counters


class _Offered(msgspec.Struct, frozen=True):
    devices: tuple[Device, ...]
    counters: dict[str, dict[str, str]]


def device_class(fact: DeviceClassObserved, time_us: int, known: DeviceClass | None) -> DeviceClass:
    """The row of a class of devices."""
    return DeviceClass(
        fact.uid, fact.name, fact.resource_version, time_us, fact.extended_name, time_us
    )


def claim_template(
    fact: ResourceClaimTemplateObserved, time_us: int, known: ClaimTemplate | None
) -> ClaimTemplate:
    """The row of a template of claims."""
    return ClaimTemplate(
        fact.uid, intern(fact.namespace), fact.name, fact.resource_version, time_us,
        _shared(fact.requests), time_us,
    )  # fmt: skip


def device_claim(
    fact: ResourceClaimObserved, time_us: int, known: DeviceClaim | None
) -> DeviceClaim:
    """The row of a claim of devices."""
    return DeviceClaim(
        fact.uid, intern(fact.namespace), fact.name, fact.resource_version, time_us, fact.owner,
        fact.is_generated, _shared(fact.requests), fact.allocation, time_us,
    )  # fmt: skip


def device_slice(
    fact: ResourceSliceObserved, time_us: int, known: DeviceSlice | None
) -> DeviceSlice:
    """The row of a slice."""
    return DeviceSlice(
        fact.uid, fact.name, fact.resource_version, time_us, fact.driver, fact.pool, fact.generation,
        fact.node, _encode(_Offered(fact.devices, fact.counters)), time_us,
    )  # fmt: skip


_encode = msgspec.msgpack.Encoder(order="sorted").encode
_decoder = msgspec.msgpack.Decoder(_Offered)


# A slice has eight cards or so, and each is asked about by itself.
@lru_cache(maxsize=256)
def _offered(raw: bytes) -> _Offered:
    return _decoder.decode(raw) if raw else _Offered((), {})


@lru_cache(maxsize=8_192)
def _shared(requests: Requests) -> Requests:
    return requests
