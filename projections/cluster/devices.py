"""The rows of devices: classes, templates of claims, claims and slices, and devices of nodes found by agents. Pure.

Claims are as many as pods, so equal parts of them share one object in memory. Devices of a slice are kept encoded:
they are decoded when a claim gets one.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from sys import intern
from typing import ClassVar

import msgspec

from bus import strict
from bus.amounts import NANO, observed_quantity
from bus.errors import MalformedJsonError, QuantityError
from bus.events.devices import (
    Allocation,
    Device,
    DeviceClassObserved,
    DeviceRequest,
    NodeDevice,
    NodeDevicesObserved,
    ResourceClaimObserved,
    ResourceClaimTemplateObserved,
    ResourceSliceObserved,
    function_number,
)
from bus.events.pods import Owner
from bus.events.scvs import ScvCard, ScvObserved
from projections.cluster.rows import Workload

Requests = tuple[DeviceRequest, ...]
#: More than any device has.
LARGEST = 2**50
#: Sizes of groups of cards allocated together, and groups of one size.
MOST_SIZES, MOST_GROUPS = 8, 72


class DeviceClass(msgspec.Struct, gc=False):
    """A class of devices."""

    kind: ClassVar[str] = "DeviceClass"
    namespace: ClassVar[str] = ""

    uid: str
    name: str
    version: str
    seen_us: int
    #: Its extended resource; "" = none.
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
    """Devices offered by a driver. :meth:`devices` and :meth:`counters` decode ``offered``."""

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
    #: The memory of its largest device, in bytes.
    memory: int = 0
    last_us: int = 0
    listed_us: int = 0

    def devices(self) -> tuple[Device, ...]:
        """Its devices."""
        return _offered(self.offered).devices

    def counters(self) -> dict[str, dict[str, str]]:
        """Counters shared by devices: set to counter to quantity."""
        return _offered(self.offered).counters


class Scv(msgspec.Struct, gc=False):
    """The cards of a node as measured by Yoda's daemon; it has the node's name."""

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


class FoundDevice(msgspec.Struct, frozen=True):
    """A device of a node, with its amounts by the newer names; {} = unhealthy."""

    type: str
    minor: int
    id: str
    amounts: dict[str, int]
    numa: int = -1
    switch: str = ""
    labels: dict[str, str] = {}
    #: Its virtual functions as numbers, those of equal labels together with these.
    functions: tuple[tuple[dict[str, str], tuple[int, ...]], ...] = ()


class CardGroup(msgspec.Struct, frozen=True):
    """Cards allocated together: the score of the group, and the bandwidth of its links, 0 if unknown."""

    minors: tuple[int, ...]
    score: int = 0
    bandwidth: int = 0


class NodeDevices(msgspec.Struct, gc=False):
    """The devices of a node as found by Koordinator's agent; it has the node's name."""

    kind: ClassVar[str] = "Device"
    namespace: ClassVar[str] = ""

    uid: str
    name: str
    version: str
    seen_us: int
    #: No two have one type and number.
    devices: tuple[FoundDevice, ...]
    #: By size: groups of cards allocated together.
    partitions: dict[int, tuple[CardGroup, ...]]
    #: ``vendor``, ``model`` and ``driver-version`` of its cards, where its labels say them.
    labels: dict[str, str] = {}
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


def node_devices(fact: NodeDevicesObserved, time_us: int, known: NodeDevices | None) -> NodeDevices:
    """The row of a Device object of Koordinator."""
    found = {(one.type, one.minor): _found(one) for one in reversed(fact.devices)}
    return NodeDevices(
        fact.uid, intern(fact.name), fact.resource_version, time_us,
        tuple(found[at] for at in sorted(found)), _partitions(fact.partitions), fact.labels, time_us,
    )  # fmt: skip


def _found(one: NodeDevice) -> FoundDevice:
    names = {name: intern(name.replace("kubernetes.io/", "koordinator.sh/")) for name in sorted(one.resources)}  # fmt: skip
    amounts = {
        newer: min(max(bytes_of(one.resources[name]), 0), LARGEST) for name, newer in names.items()
    }
    return FoundDevice(
        one.type, one.minor, one.id, amounts if one.is_healthy else {}, one.numa, one.switch, one.labels,
        tuple(_functions(one)),
    )  # fmt: skip


def _functions(one: NodeDevice) -> Iterator[tuple[dict[str, str], tuple[int, ...]]]:
    addresses = iter(one.functions)
    for count, labels in one.function_labels or ((len(one.functions), {}),):
        numbers = map(function_number, islice(addresses, count))
        if known := tuple(sorted(number for number in numbers if number is not None)):
            yield labels, known


class _Partition(msgspec.Struct):
    minors: list[int]
    score: int = msgspec.field(default=0, name="allocationScore")
    bandwidth: str | int = msgspec.field(default="", name="ringBusBandwidth")


def _partitions(text: str) -> dict[int, tuple[CardGroup, ...]]:
    """Groups of cards by their size; {} where nobody can read them."""
    if not text:
        return {}
    raw = text.encode()
    try:
        partitions = msgspec.convert(
            strict.loads(raw, max_bytes=len(raw)), dict[str, list[_Partition]]
        )
    except (MalformedJsonError, msgspec.ValidationError):
        return {}
    found: dict[int, dict[tuple[int, ...], CardGroup]] = {}
    for groups in partitions.values():
        for one in groups:
            minors = tuple(sorted(set(one.minors)))
            group = CardGroup(minors, one.score, bytes_of(str(one.bandwidth)))
            found.setdefault(len(minors), {}).setdefault(minors, group)
    sizes = sorted(size for size in found if size)[:MOST_SIZES]
    return {size: tuple(found[size].values())[:MOST_GROUPS] for size in sizes}


def direct_claim(fact: ResourceClaimObserved, time_us: int, known: Workload | None) -> Workload:
    """The row of a claim without an owning pod, itself a workload: it is charged for its allocation, whichever pods
    use it.
    """
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
