"""The capacity of all nodes, written into the journals of elastic trees. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate

from bus.amounts import NANO, observed_quantity
from bus.errors import QuantityError
from bus.events.admissions import ChargeEvidence, TreeMetered
from projections.cluster import ClusterState
from projections.cluster.devices import DeviceSlice, bytes_of
from projections.devices.demand import DEVICES, GPU_DRIVERS, MEMORY, card_of
from projections.quota_trees import TreeOverlay

#: By resource of cards, and node ("" = of none): cards, each by its pool and name.
Cards = dict[str, dict[str, set[tuple[str, str]]]]


def capacity(state: ClusterState) -> dict[str, int]:
    """The amounts of all nodes, by resource: cpu in milli, all others whole, cut; and devices allocated by claim.

    Unschedulable nodes count, as they do upstream; an unreadable quantity counts nothing. The devices of a class are
    unknown: a class with a driver's name has those of the driver, any other may have all. A node's device plugin and its
    slices may show the same cards: the larger number counts.
    """
    total, cards = _devices(state)
    for node in state.current_nodes():
        for name, text in node.allocatable.items():
            try:
                nano = observed_quantity(text)
            except QuantityError:
                continue
            amount = nano // (NANO // 1000 if name == "cpu" else NANO)
            shown = cards.get(name, {}).pop(node.name, ())
            total[name] = total.get(name, 0) + max(amount, len(shown))
    for name, left in cards.items():
        total[name] = total.get(name, 0) + sum(map(len, left.values()))
    return total


def _devices(state: ClusterState) -> tuple[dict[str, int], Cards]:
    pools: dict[tuple[str, str], list[DeviceSlice]] = {}
    for one in state.slices.values():
        pools.setdefault((one.driver, one.pool), []).append(one)
    number: dict[str, int] = {}
    cards: Cards = {}
    total: dict[str, int] = {}
    for (driver, pool), slices in sorted(pools.items()):
        newest = max(one.generation for one in slices)
        slices = [one for one in slices if one.generation == newest]
        offered = [(device.node or one.node, device) for one in slices for device in one.devices()]
        counters = {name: found for one in slices for name, found in one.counters().items()}
        sets: dict[str, list[int]] = {}
        for node, device in offered:
            memory = bytes_of(device.capacity.get("memory", ""))
            for name in device.consumes or (f"/{device.name}",):
                taken = bytes_of(device.consumes.get(name, {}).get("memory", "")) or memory
                sets.setdefault(name, []).append(taken)
                if driver in GPU_DRIVERS:
                    on_node = cards.setdefault(card_of(driver), {}).setdefault(node, set())
                    on_node.add((pool, name))
        for name, parts in sets.items():
            # A set of counters is divided among its devices; each device is one way to use it.
            most = bytes_of(counters.get(name, {}).get("memory", "")) or max(parts)
            number[driver] = number.get(driver, 0) + _at_once(parts, most)
            if driver in GPU_DRIVERS:
                total[MEMORY] = total.get(MEMORY, 0) + most
    for name in {*number, *(row.name for row in state.device_classes.values())}:
        total[DEVICES + name] = number.get(name, sum(number.values()))
    return total, cards


def _at_once(parts: list[int], most: int) -> int:
    """How many devices of these sizes can be given at the same time, at most."""
    sums = accumulate(sorted(parts))
    return max(1, sum(one <= most for one in sums))


def sized(draft: TreeOverlay, total: Mapping[str, int], read: int) -> TreeMetered | None:
    """The capacity of an elastic tree, where it changed. ``read``: how far the history was read for it."""
    if draft.tree.total == total:
        return None
    return TreeMetered(
        number=draft.number, total=dict(sorted(total.items())), based_on=draft.tree.sequence,
        evidence=ChargeEvidence(read),
    )  # fmt: skip
