"""A pod's terms for its devices, beyond their number: three annotations of Koordinator, as JSON. Pure.

Tenants write them. A meaningless one is named: Koordinator places no pod with unreadable ones.

Source: koordinator-sh/koordinator, apis/extension (device_share.go); docs/scheduling.md, "Shared GPUs".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeVar

import msgspec

from bus import strict
from bus.amounts import observed_quantity
from bus.errors import MalformedJsonError, QuantityError
from bus.events.constraints import DeviceHint, DeviceTerms, LabelSelector, is_valid
from bus.events.devices import FIRST

HINT = "scheduling.koordinator.sh/device-allocate-hint"
JOINT = "scheduling.koordinator.sh/device-joint-allocate"
PARTITION = "scheduling.koordinator.sh/gpu-partition-spec"
_SAYING = frozenset({HINT, JOINT, PARTITION})

#: Longest readable annotation, and longest quantity; a longer one is unreadable.
LONGEST_TERMS = 4 * 1024
LONGEST_QUANTITY = 32

T = TypeVar("T")


class Hint(msgspec.Struct, rename="camel"):
    """An entry of :data:`HINT`."""

    selector: LabelSelector | None = None
    vf_selector: LabelSelector | None = msgspec.field(default=None, name="vfSelector")
    allocate_strategy: Literal["", "ApplyForAll", "RequestsAsCount"] = ""
    required_topology_scope: Literal["", "Device", "PCIe", "NUMANode", "Node"] = ""
    exclusive_policy: Literal["", "DeviceLevel", "PCIeLevel"] = ""


class Joint(msgspec.Struct, rename="camel"):
    """The decoded part of :data:`JOINT`."""

    device_types: list[str] | None = None
    required_scope: Literal["", "SamePCIe"] = ""


class Partition(msgspec.Struct, rename="camel"):
    """The decoded part of :data:`PARTITION`. A quantity may be a number, too."""

    allocate_policy: Literal["", "Restricted", "BestEffort"] = ""
    ring_bus_bandwidth: str | int | None = None


def device_terms(annotations: Mapping[str, str] | None) -> DeviceTerms | None:
    """A pod's terms for its devices; None = no terms."""
    noted = annotations or {}
    if _SAYING.isdisjoint(noted):
        return None
    hints = _hints(noted)
    joint = _decoded(noted, JOINT, Joint)
    partition = _decoded(noted, PARTITION, Partition)
    known = {kind: one for kind, one in (hints or {}).items() if one is not None}
    bandwidth = "" if partition is None else _quantity(partition.ring_bus_bandwidth)
    is_readable = {
        HINT: hints is not None and all(map(_is_valid, known.values())),
        JOINT: joint is not None,
        PARTITION: bandwidth is not None and partition is not None,
    }
    kinds = dict.fromkeys(kind for kind in (joint and joint.device_types) or () if kind in FIRST)
    found = DeviceTerms(
        hints={kind: _hint(known[kind]) for kind in sorted(known) if _is_valid(known[kind])},
        joint=tuple(kinds),
        same_switch=joint is not None and joint.required_scope == "SamePCIe",
        partition=(partition.allocate_policy or "BestEffort") if partition else "",
        bandwidth=bandwidth or "",
        unreadable=tuple(key for key in sorted(_SAYING & noted.keys()) if not is_readable[key]),
    )
    return None if found == DeviceTerms() else found


def _hints(noted: Mapping[str, str]) -> dict[str, Hint | None] | None:
    """The hints of known kinds; None if one of them, or all, are unreadable."""
    hints = _decoded(noted, HINT, dict[str, object])
    if hints is None:
        return None
    try:
        return msgspec.convert({kind: hints[kind] for kind in FIRST if kind in hints}, dict[str, Hint | None])  # fmt: skip
    except msgspec.ValidationError:
        return None


def _hint(one: Hint) -> DeviceHint:
    return DeviceHint(
        one.selector, one.allocate_strategy, one.required_topology_scope, one.exclusive_policy,
        one.vf_selector,
    )  # fmt: skip


def _is_valid(one: Hint) -> bool:
    return all(each is None or is_valid(each) for each in (one.selector, one.vf_selector))


def _quantity(found: str | int | None) -> str | None:
    """As text; "" where none is stated, None where it is no quantity."""
    if found is None:
        return ""
    text = str(found)
    try:
        observed_quantity(text)
    except QuantityError:
        return None
    return text if len(text) <= LONGEST_QUANTITY else None


def _decoded(noted: Mapping[str, str], key: str, kind: type[T]) -> T | None:
    """None where it is absent, or no JSON of this kind."""
    raw = noted.get(key, "").encode()
    if not raw:
        return None
    try:
        return msgspec.convert(strict.loads(raw, max_bytes=LONGEST_TERMS), kind)
    except (MalformedJsonError, msgspec.ValidationError):
        return None
