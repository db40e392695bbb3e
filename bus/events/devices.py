"""Facts about devices: claims, their templates, slices and classes of devices, and the devices of a node found by
Koordinator's agent.

Bodies hold the API server's fields by an allow-list: no ``config`` (it may hold secrets), no driver data of
``status.devices``, no selector, and no ``reservedFor`` (redundant with pods, and written many times a second).

Source: Kubernetes API reference, resource.k8s.io/v1; koordinator-sh/koordinator, scheduling/v1alpha1 Device; docs/devices.md.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar

import msgspec

from bus import strict
from bus.errors import MalformedJsonError
from bus.events.pods import Owner
from bus.events.vocabulary import Fact

#: Drivers with cards as devices.
CARD_DRIVERS = frozenset(("gpu.nvidia.com", "gpu.amd.com", "gpu.intel.com", "gpu.example.com"))

#: By Koordinator: the parts of devices allocated to a pod.
ALLOCATED = "scheduling.koordinator.sh/device-allocated"
#: By Bursar, among the resources of a pod or a node: the installation's own cards (``devices.accelerators``), as
#: JSON, ``{resource: [milli-cards, model]}``. An annotation of this name is never read.
COUNTED = "bursar.io/counted-as-cards"
#: Devices as numbers: the first of each kind, and how many there may be of one.
FIRST = {"gpu": 0, "rdma": 1_000, "fpga": 2_000}
MOST_MINORS = 1_000
#: Virtual functions as numbers: this and their PCI address.
FUNCTIONS = 1 << 40
_ADDRESS = re.compile(r"([0-9a-f]{4}):([0-9a-f]{2}):([01][0-9a-f])\.([0-7])")


class DeviceAsk(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One way to satisfy a request: so many devices of a class."""

    device_class: str = ""
    #: ``ExactCount`` or ``All``.
    mode: str = ""
    count: int = 1
    is_admin: bool = False


class DeviceRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """A request of a claim: one of these asks, the first that can be had."""

    name: str
    asks: tuple[DeviceAsk, ...] = ()


class DeviceResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """A device allocated to a claim, or a share of one."""

    request: str
    driver: str
    pool: str
    device: str
    is_admin: bool = False
    share_id: str = ""
    #: The share's part of the device's capacity, quantities as they were written.
    consumed: dict[str, str] = {}


class Allocation(msgspec.Struct, frozen=True, omit_defaults=True):
    """The devices allocated to a claim, with the scheduler's timestamp (RFC 3339; absent on old servers)."""

    stamp: str | None = None
    results: tuple[DeviceResult, ...] = ()


class ResourceClaimState(Fact, frozen=True, kw_only=True):
    """A claim as one record showed it."""

    uid: str
    namespace: str
    name: str
    resource_version: str
    created: str | None = None
    owner: Owner | None = None
    #: It was made for its owner, a pod, by Kubernetes: from a template, or for an extended resource.
    is_generated: bool = False
    team: str | None = None
    user: str | None = None
    #: Labels of a quota, or a model.
    labels: dict[str, str] = {}
    requests: tuple[DeviceRequest, ...] = ()
    allocation: Allocation | None = None
    notes: tuple[str, ...] = ()


class ResourceClaimObserved(ResourceClaimState, frozen=True, kw_only=True):
    """A claim was observed. Key: its uid."""

    wire_type: ClassVar[str] = "resourceclaim.observed"


class ResourceClaimVanished(ResourceClaimState, frozen=True, kw_only=True):
    """A claim was deleted: the last state, as the DELETED record carried it. Key: its uid."""

    wire_type: ClassVar[str] = "resourceclaim.vanished"


class ResourceClaimTemplateObserved(Fact, frozen=True, kw_only=True):
    """A template of claims was observed. Key: its uid."""

    wire_type: ClassVar[str] = "resourceclaimtemplate.observed"

    uid: str
    namespace: str
    name: str
    resource_version: str
    requests: tuple[DeviceRequest, ...] = ()


class ResourceClaimTemplateVanished(Fact, frozen=True, kw_only=True):
    """A template of claims was deleted. Key: its uid."""

    wire_type: ClassVar[str] = "resourceclaimtemplate.vanished"

    uid: str
    namespace: str
    name: str
    resource_version: str


class Device(msgspec.Struct, frozen=True, omit_defaults=True):
    """A device of a slice: a card, or a part of one. Quantities as they were written."""

    name: str
    #: Its node, where the slice's devices have one each.
    node: str = ""
    #: Of its attributes: type, productName, profile, uuid, parentUUID.
    attributes: dict[str, str] = {}
    capacity: dict[str, str] = {}
    #: Its part of each set's counters: set → counter → quantity.
    consumes: dict[str, dict[str, str]] = {}
    #: It may be given to several claims, each a share of its capacity.
    is_shared: bool = False


class ResourceSliceState(Fact, frozen=True, kw_only=True):
    """A slice of a driver's devices as one record showed it."""

    uid: str
    name: str
    resource_version: str
    driver: str = ""
    pool: str = ""
    generation: int = 0
    #: How many slices the pool has in this generation.
    slices: int = 0
    node: str = ""
    devices: tuple[Device, ...] = ()
    #: Counters shared by devices: set → counter → quantity.
    counters: dict[str, dict[str, str]] = {}
    notes: tuple[str, ...] = ()


class ResourceSliceObserved(ResourceSliceState, frozen=True, kw_only=True):
    """A slice was observed. Key: its uid."""

    wire_type: ClassVar[str] = "resourceslice.observed"


class ResourceSliceVanished(ResourceSliceState, frozen=True, kw_only=True):
    """A slice was deleted: the last state, as the DELETED record carried it. Key: its uid."""

    wire_type: ClassVar[str] = "resourceslice.vanished"


class DeviceClassObserved(Fact, frozen=True, kw_only=True):
    """A class of devices was observed. Key: its name."""

    wire_type: ClassVar[str] = "deviceclass.observed"

    uid: str
    name: str
    resource_version: str
    #: spec.extendedResourceName: pods with a request for it get devices of this class.
    extended_name: str = ""


class DeviceClassVanished(Fact, frozen=True, kw_only=True):
    """A class of devices was deleted. Key: its name."""

    wire_type: ClassVar[str] = "deviceclass.vanished"

    uid: str
    name: str
    resource_version: str


class NodeDevice(msgspec.Struct, frozen=True, omit_defaults=True):
    """A device of a node. ``minor`` is its number among the node's devices of its type."""

    type: str
    minor: int
    #: Its uuid, or another identifier.
    id: str = ""
    is_healthy: bool = False
    #: Resource to quantity, as they were written.
    resources: dict[str, str] = {}
    #: Its NUMA node; -1 = nobody says.
    numa: int = -1
    #: Its PCIe switch.
    switch: str = ""
    #: Addresses of its virtual functions.
    functions: tuple[str, ...] = ()
    #: The labels of these, where they have some: of so many of them in a row.
    function_labels: tuple[tuple[int, dict[str, str]], ...] = ()
    #: Labels for the choice of devices by pods.
    labels: dict[str, str] = {}


class NodeDevicesObserved(Fact, frozen=True, kw_only=True):
    """A Device object of Koordinator was observed. Key: its name, which is the node's."""

    wire_type: ClassVar[str] = "device.observed"

    uid: str
    name: str
    resource_version: str
    devices: tuple[NodeDevice, ...] = ()
    #: The cards allocated together, from its annotation.
    partitions: str = ""
    #: Vendor, model and driver of its cards, as its labels ``node.koordinator.sh/gpu-`` have them, by the rest of these.
    labels: dict[str, str] = {}
    #: Not all of its devices are here: they say more than a fact may carry.
    is_cut: bool = False


class NodeDevicesVanished(Fact, frozen=True, kw_only=True):
    """A Device object was deleted. Key: its name."""

    wire_type: ClassVar[str] = "device.vanished"

    uid: str
    name: str
    resource_version: str


class _Function(msgspec.Struct):
    bus_id: str = msgspec.field(default="", name="busID")


class _Extension(msgspec.Struct):
    vfs: list[_Function] | None = None


class _Given(msgspec.Struct):
    minor: int
    extension: _Extension | None = None


def function_number(address: str) -> int | None:
    """A virtual function as a number; None where this is no address of the PCI bus."""
    found = _ADDRESS.fullmatch(address)
    if found is None:
        return None
    domain, bus, device, function = (int(one, 16) for one in found.groups())
    return FUNCTIONS | domain << 16 | bus << 8 | device << 3 | function


def device_name(number: int) -> str:
    """A device as a decision tells it: a virtual function by its address, any other one by its number."""
    if number < FUNCTIONS:
        return str(number)
    return f"{number >> 16 & 0xFFFF:04x}:{number >> 8 & 0xFF:02x}:{number >> 3 & 0x1F:02x}.{number & 7}"  # fmt: skip


def given_devices(texts: Mapping[str, str]) -> tuple[int, ...] | None:
    """The devices allocated to a pod by Koordinator, from its annotation: numbers. () for an unreadable one; None =
    absent.

    Whoever may write pods may write the annotation.
    """
    if ALLOCATED not in texts:
        return None
    raw = texts[ALLOCATED].encode()
    try:
        given = msgspec.convert(strict.loads(raw, max_bytes=len(raw)), dict[str, list[_Given]])
    except (MalformedJsonError, msgspec.ValidationError):
        return ()
    found = {
        FIRST[kind] + one.minor
        for kind, several in given.items()
        if kind in FIRST
        for one in several
        if 0 <= one.minor < MOST_MINORS
    }
    named = (one.extension.vfs or () for several in given.values() for one in several if one.extension)  # fmt: skip
    numbers = (function_number(vf.bus_id) for vfs in named for vf in vfs)
    return (*sorted(found), *sorted({one for one in numbers if one is not None}))
