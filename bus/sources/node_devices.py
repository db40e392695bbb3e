"""Device objects as facts: the GPUs, RDMA devices and FPGAs of a node. Pure: one record in, one event out.

Koordinator's node agent writes an object for each node, and anew when a device, its health or its place changes.

Source: koordinator-sh/koordinator, apis/scheduling/v1alpha1 Device.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice

import msgspec

from bus.envelope import Event
from bus.events.devices import (
    FIRST,
    MOST_MINORS,
    NodeDevice,
    NodeDevicesObserved,
    NodeDevicesVanished,
)
from bus.kube.watch import records
from bus.kube.watch.labels import LabelPolicy
from bus.kube.watch.records import Metadata, Record

#: The cards of a board allocated together.
PARTITIONS = "scheduling.koordinator.sh/gpu-partitions"
_NAMES = ("gpu", "gpu-core", "gpu-memory", "gpu-memory-ratio", "rdma", "fpga")
#: Labels with the vendor and model of the cards: Koordinator copies them to the node.
LABELS = "node.koordinator.sh/gpu-"
_ABOUT = ("vendor", "model", "driver-version")
#: Published resources of a device; the second prefix belongs to Koordinator 1.0.
RESOURCES = frozenset(
    {f"{prefix}/{name}" for prefix in ("koordinator.sh", "kubernetes.io") for name in _NAMES}
    | {f"huawei.com/npu-{name}" for name in ("core", "cpu", "dvpp")}
)
#: Most bytes of devices, as JSON: of more the first are kept, and no pod gets the others.
LARGEST_DEVICES = 40 * 1024
#: Longest table of cards allocated together; a longer one is dropped.
LONGEST_PARTITIONS = 12 * 1024
MOST_FUNCTIONS = 256
#: Labels of a device, and the longest name of one.
MOST_LABELS, LONGEST_LABEL = 16, 128
#: Longest quantity, and longest name of a device, a switch or an address; a longer one is none.
LONGEST_QUANTITY, LONGEST_NAME = 32, 80


class Topology(msgspec.Struct, rename="camel"):
    """``topology`` of a device."""

    node_id: int = msgspec.field(default=-1, name="nodeID")
    pcie_id: str = msgspec.field(default="", name="pcieID")


class Function(msgspec.Struct):
    """A virtual function."""

    bus_id: str = msgspec.field(default="", name="busID")


class Functions(msgspec.Struct):
    """An entry of ``vfGroups``."""

    vfs: list[Function] | None = None
    labels: dict[str, str] | None = None


class Found(msgspec.Struct, rename="camel"):
    """An entry of ``spec.devices``."""

    type: str = ""
    id: str = ""
    minor: int | None = None
    health: bool = False
    resources: dict[str, str | int] | None = None
    topology: Topology | None = None
    vf_groups: list[Functions] | None = None
    labels: dict[str, str] | None = None


class _Spec(msgspec.Struct):
    """The decoded part of ``spec``."""

    devices: list[Found] | None = None


class Device(msgspec.Struct):
    """The decoded part of a Device object."""

    metadata: Metadata
    spec: _Spec | None = None


def translate(record: Record, labels: LabelPolicy) -> Event:
    """``device.observed`` or ``device.vanished``.

    Raises MalformedJsonError or ObservationError: park the record and list again.
    """
    found = records.decoded(record.object, Device)
    metadata = records.identified(found.metadata)
    fact: NodeDevicesObserved | NodeDevicesVanished
    if records.is_delete(record):
        fact = NodeDevicesVanished(
            uid=metadata.uid, name=metadata.name, resource_version=metadata.resource_version
        )
    else:
        devices, is_cut = _devices((found.spec.devices if found.spec else None) or ())
        fact = NodeDevicesObserved(
            uid=metadata.uid,
            name=metadata.name,
            resource_version=metadata.resource_version,
            devices=devices,
            partitions=_text((metadata.annotations or {}).get(PARTITIONS, ""), LONGEST_PARTITIONS),
            labels=_labels(metadata.labels or {}),
            is_cut=is_cut,
        )
    return records.event_of(
        fact, record, key=fact.name, uid=fact.uid, resource_version=fact.resource_version
    )


def _labels(found: Mapping[str, str]) -> dict[str, str]:
    named = {name: _text(found.get(LABELS + name, "")) for name in _ABOUT}
    return {name: text for name, text in named.items() if text}


def _devices(found: Iterable[Found]) -> tuple[tuple[NodeDevice, ...], bool]:
    """The allocatable devices, and whether more exist than fit into a fact."""
    kept, room = list[NodeDevice](), LARGEST_DEVICES
    for one in found:
        if one.type not in FIRST or one.minor is None or not 0 <= one.minor < MOST_MINORS:
            continue
        topology = one.topology or Topology()
        functions, labels = _functions(one.vf_groups or ())
        device = NodeDevice(
            one.type, one.minor, _text(one.id), one.health,
            {name: _text(str(amount), LONGEST_QUANTITY) for name, amount in (one.resources or {}).items() if name in RESOURCES},
            topology.node_id if 0 <= topology.node_id < MOST_MINORS else -1, _text(topology.pcie_id),
            functions, labels, _kept_labels(one.labels or {}),
        )  # fmt: skip
        room -= len(msgspec.json.encode(device)) + 1
        if room < 0:
            return tuple(kept), True
        kept.append(device)
    return tuple(kept), False


def _functions(
    groups: Iterable[Functions],
) -> tuple[tuple[str, ...], tuple[tuple[int, dict[str, str]], ...]]:
    """The first addresses, and the labels of these."""
    found, labels = list[str](), list[tuple[int, dict[str, str]]]()
    for group in groups:
        addresses = [text for one in group.vfs or () if (text := _text(one.bus_id))]
        addresses = addresses[: MOST_FUNCTIONS - len(found)]
        if addresses:
            found += addresses
            labels.append((len(addresses), _kept_labels(group.labels or {})))
    return tuple(found), tuple(labels) if any(one for _, one in labels) else ()


def _kept_labels(found: Mapping[str, str]) -> dict[str, str]:
    """The first ones by name, so equal objects give equal bytes."""
    short = (
        key
        for key in sorted(found)
        if len(key) <= LONGEST_LABEL and len(found[key]) <= LONGEST_NAME
    )
    return {key: found[key] for key in islice(short, MOST_LABELS)}


def _text(text: str, longest: int = LONGEST_NAME) -> str:
    return text if len(text) <= longest else ""
