"""Devices as observed: their cards, and their shared counters.

One row for each device and one for each set of counters, with every observation: a claim's allocation keeps its
size.

Source: docs/devices.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import sqlalchemy as sa

from bus.envelope import Event
from bus.events.devices import Device, ResourceSliceObserved
from projections.devices.partitions import is_fixed, parent_card
from projections.engine.codec import Codec
from projections.engine.contract import Key, Projection, row_table
from projections.timelines import History, added

device_supply = row_table(
    "device_supply",
    sa.Column("cluster", sa.Text, primary_key=True),
    sa.Column("driver", sa.Text, primary_key=True),
    sa.Column("pool", sa.Text, primary_key=True),
    # "device" or "counters".
    sa.Column("kind", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("node", sa.Text, nullable=False),
    sa.Column("model", sa.Text),
    sa.Column("state", sa.Text, nullable=False),
)

DEVICE, COUNTERS = "device", "counters"


class SuppliedDevice(msgspec.Struct, frozen=True, array_like=True):
    """One observation of a device, or of a set of counters (quantities by name)."""

    node: str = ""
    device: Device | None = None
    counters: dict[str, str] = {}
    #: Of a fixed partition: its card, and that card's MiB of memory if known.
    card: str = ""
    card_mib: int = 0


class Supply(msgspec.Struct, frozen=True):
    """A device or a set of counters of a pool, over all slices with it."""

    cluster: str
    driver: str
    pool: str
    kind: str
    name: str
    history: tuple[tuple[str, int, SuppliedDevice], ...] = ()
    sequence: int = 0

    def at(self, us: int) -> SuppliedDevice | None:
        """The last observation at or before a moment, else the first after it."""
        found: SuppliedDevice | None = None
        for _, time_us, value in self.history:
            if time_us <= us or found is None:
                found = value
        return found


class SlicePart(msgspec.Struct, frozen=True):
    """The content of one slice for one row."""

    driver: str
    pool: str
    kind: str
    name: str
    resource_version: str
    value: SuppliedDevice


def parts(fact: ResourceSliceObserved) -> Iterator[SlicePart]:
    """A part for each device, and for each set of counters."""
    for device in fact.devices:
        value = supplied(device, fact.devices, fact.node)
        yield SlicePart(fact.driver, fact.pool, DEVICE, device.name, fact.resource_version, value)
    for name, counters in fact.counters.items():
        value = SuppliedDevice(fact.node, None, counters)
        yield SlicePart(fact.driver, fact.pool, COUNTERS, name, fact.resource_version, value)


def supplied(device: Device, devices: tuple[Device, ...], node: str) -> SuppliedDevice:
    """A device of a slice of ``devices`` on ``node``."""
    of = parent_card(device, devices) if is_fixed(device) else ()
    return SuppliedDevice(device.node or node, device, {}, *of)


def keys(part: SlicePart, event: Event) -> tuple[Key]:
    """One row."""
    return ((event.cluster, part.driver, part.pool, part.kind, part.name),)


def fold(row: Supply | None, part: SlicePart, event: Event) -> Supply:
    """The device with one more observation."""
    row = row or Supply(event.cluster, part.driver, part.pool, part.kind, part.name)
    history: History = added(row.history, part.resource_version, event.time_us, part.value)
    if history == row.history:
        return row
    return msgspec.structs.replace(row, history=history, sequence=event.sequence)


def _shown(row: Supply) -> dict[str, Any]:
    latest = row.history[-1][2] if row.history else SuppliedDevice()
    model = latest.device.attributes.get("productName") if latest.device else None
    return {"node": latest.node, "model": model}


projection = Projection(
    name="device_supply",
    version=3,
    table=device_supply,
    facts=(ResourceSliceObserved,),
    keys=keys,
    fold=fold,
    codec=Codec(Supply, device_supply, packed={"state": ("history",)}, shown=_shown),
    parts=parts,
)
