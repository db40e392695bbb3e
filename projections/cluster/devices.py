"""The rows of devices: classes, templates of claims, claims and slices, and cards of nodes as Yoda's daemon measures them. Pure.

Claims are as many as pods, so what many of them say is one object in memory. Devices of a slice are kept encoded: they
are read where a claim is given one.
"""

from __future__ import annotations

from functools import lru_cache
from sys import intern
from typing import ClassVar

import msgspec

from bus.amounts import NANO, observed_quantity
from bus.errors import QuantityError
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
from bus.events.scvs import ScvCard, ScvObserved
from projections.cluster.rows import Workload

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
    #: The most memory that one of its devices has, in bytes.
    memory: int = 0
    last_us: int = 0
    listed_us: int = 0

    def devices(self) -> tuple[Device, ...]:
        """Its devices."""
        return _offered(self.offered).devices

    def counters(self) -> dict[str, dict[str, str]]:
        """Counters that devices share: set to counter to quantity."""
        return _offered(self.offered).counters


class Scv(msgspec.Struct, gc=False):
    """The cards of a node as Yoda's daemon measures them; it has the node's name."""

    kind: ClassVar[str] = "Scv"
    namespace: ClassVar[str] = ""

    uid: str
    name: str
    version: str
    seen_us: int
    card_number: int
    total_memory: int
    free_memory: int
    cards: tuple[ScvCard, ...]
    last_us: int = 0
    listed_us: int = 0


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
        fact.node, _encode(_Offered(fact.devices, fact.counters)),
        max((bytes_of(one.capacity.get("memory", "")) for one in fact.devices), default=0), time_us,
    )  # fmt: skip


def scv(fact: ScvObserved, time_us: int, known: Scv | None) -> Scv:
    """The row of an Scv object."""
    return Scv(
        fact.uid, intern(fact.name), fact.resource_version, time_us, fact.card_number, fact.total_memory,
        fact.free_memory, fact.cards, time_us,
    )  # fmt: skip


def direct_claim(fact: ResourceClaimObserved, time_us: int, known: Workload | None) -> Workload:
    """The row of a claim that is a workload itself: it holds what it is given, whichever pods use it."""
    return Workload(
        fact.uid, DeviceClaim.kind, intern(fact.namespace), fact.name, fact.resource_version,
        time_us, labels=fact.labels, last_us=time_us,
    )  # fmt: skip


def bytes_of(text: str) -> int:
    """A quantity in whole units; 0 where it cannot be read."""
    try:
        return observed_quantity(text) // NANO if text else 0
    except QuantityError:
        return 0


_encode = msgspec.msgpack.Encoder(order="sorted").encode
_decoder = msgspec.msgpack.Decoder(_Offered)


# A slice has eight cards or so, and each is asked about by itself.
@lru_cache(maxsize=256)
def _offered(raw: bytes) -> _Offered:
    return _decoder.decode(raw) if raw else _Offered((), {})


@lru_cache(maxsize=8_192)
def _shared(requests: Requests) -> Requests:
    return requests
