"""The size of each claim's part of its cards.

Source: docs/devices.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import lru_cache

import msgspec

from bus.amounts import NANO, observed_quantity
from bus.errors import QuantityError
from bus.events.devices import Device, DeviceResult
from projections.devices.demand import GPU_DRIVERS
from projections.devices.partitions import fixed_part
from projections.devices.supply import COUNTERS, DEVICE, SuppliedDevice

#: The counter, or capacity, for the size of a card's part.
SIZE = "memory"
SHARES = "shares"
WHOLE = 1_000
_MIB = 2**20 * NANO

#: Takes kind and name of a row of the result's pool; returns its known state at the result's allocation.
Known = Callable[[str, str], SuppliedDevice | None]


class Size(msgspec.Struct, frozen=True, gc=False):
    """The size of one result: milli-cards and MiB of device memory.

    ``cards``: its part of each card. ``is_rest``: it shares the rest of it evenly with others of its kind.
    ``model`` None: from the node's label. ``extended``: a device of another kind, counted under its driver's name.
    """

    gpu_milli: int = 0
    gpu_memory_mib: int = 0
    cards: tuple[tuple[str, int], ...] = ()
    is_rest: bool = False
    model: str | None = None
    node: str = ""
    extended: str = ""
    is_unseen: bool = False


def sized(result: DeviceResult, known: Known) -> Size:
    """The size of ``result``: its size at the allocation, as long as the claim has it.

    Rounded down once: the parts of a card never pass 1,000.
    """
    if result.is_admin:
        return Size()
    if result.driver not in GPU_DRIVERS:
        return Size(extended=result.driver)
    name = f"{result.driver}/{result.pool}/{result.device}"
    found = known(DEVICE, result.device)
    if found is None or found.device is None:
        return Size(WHOLE, 0, ((name, WHOLE),), is_unseen=True)
    device = found.device
    model, node = device.attributes.get("productName"), found.node
    fixed = None if device.consumes else fixed_part(device, found.card_mib)
    if fixed is None and not (device.consumes or device.is_shared):
        memory = _quantity(result.consumed.get(SIZE, device.capacity.get(SIZE)))
        return Size(WHOLE, memory // _MIB, ((name, WHOLE),), False, model, node)
    parts: dict[str, Fraction] = {}
    if fixed is not None:
        parts[f"{result.driver}/{result.pool}/{found.card or result.device}"] = fixed
    for counters, taken in device.consumes.items():
        totals = known(COUNTERS, counters)
        if totals is None:
            return Size(WHOLE, 0, ((name, WHOLE),), False, model, node, is_unseen=True)
        parts[f"{result.driver}/{result.pool}/{counters}"] = _part(taken, totals.counters)
    parts = parts or {name: Fraction(1)}
    share = _share(result, device)
    is_rest = device.is_shared and share == 0
    of_whole = WHOLE * (Fraction(1) if is_rest else share)
    memory = _quantity(result.consumed.get(SIZE, device.capacity.get(SIZE)))
    return Size(
        int(of_whole * sum(parts.values(), Fraction(0))),
        memory // _MIB,
        tuple((card, int(of_whole * part)) for card, part in parts.items()),
        is_rest,
        model,
        node,
    )


def _part(taken: Mapping[str, str], totals: Mapping[str, str]) -> Fraction:
    """A device's part of a set of counters: of the counter for size, without it the mean over all."""
    if SIZE in totals:
        return _ratio(taken.get(SIZE), totals[SIZE]) or Fraction(0)
    return _mean(taken, totals)


def _share(result: DeviceResult, device: Device) -> Fraction:
    """A share's part of its device; all of an unshared device."""
    if not device.is_shared:
        return Fraction(1)
    for size in (SHARES, SIZE):
        if size in device.capacity:
            return _ratio(result.consumed.get(size), device.capacity[size]) or Fraction(0)
    return _mean(result.consumed, device.capacity)


def _mean(parts: Mapping[str, str], totals: Mapping[str, str]) -> Fraction:
    ratios = [_ratio(parts.get(name), total) for name, total in totals.items()]
    known = [one for one in ratios if one is not None]
    return sum(known, Fraction(0)) / len(known) if known else Fraction(0)


def _ratio(part: str | None, total: str) -> Fraction | None:
    whole = _quantity(total)
    return Fraction(_quantity(part), whole) if whole else None


@lru_cache(maxsize=4_096)
def _quantity(text: str | None) -> int:
    try:
        return observed_quantity(text) if text else 0
    except QuantityError:
        return 0
