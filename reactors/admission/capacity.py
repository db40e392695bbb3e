"""What all nodes have, brought into the journals of elastic trees. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from bus.amounts import NANO, observed_quantity
from bus.errors import QuantityError
from bus.events.admissions import Evidence, TreeMetered
from projections.cluster import ClusterState
from projections.cluster.devices import bytes_of
from projections.devices.demand import DEVICES, GPU_DRIVERS, MEMORY, card_of
from projections.quota_trees import TreeOverlay


def capacity(state: ClusterState) -> dict[str, int]:
    """What all nodes have, by resource: cpu in milli, everything else whole, cut; and devices that are given out by claim.

    Unschedulable nodes count, as they do upstream; a quantity that cannot be read counts nothing. Which devices a class selects
    is not known: that of a driver's name has those of the driver, any other may have all.
    """
    total = _devices(state)
    for node in state.current_nodes():
        for name, text in node.allocatable.items():
            try:
                nano = observed_quantity(text)
            except QuantityError:
                continue
            total[name] = total.get(name, 0) + nano // (NANO // 1000 if name == "cpu" else NANO)
    return total


def _devices(state: ClusterState) -> dict[str, int]:
    newest: dict[tuple[str, str], int] = {}
    for one in state.slices.values():
        pool = (one.driver, one.pool)
        newest[pool] = max(newest.get(pool, 0), one.generation)
    number: dict[str, int] = {}
    cards: dict[str, set[tuple[str, str]]] = {}
    total: dict[str, int] = {}
    for one in state.slices.values():
        if one.generation < newest[one.driver, one.pool]:
            continue
        devices = one.devices()
        number[one.driver] = number.get(one.driver, 0) + len(devices)
        if one.driver in GPU_DRIVERS:
            memory = sum(bytes_of(device.capacity.get("memory", "")) for device in devices)
            total[MEMORY] = total.get(MEMORY, 0) + memory
            names = {name for device in devices for name in (*device.consumes,) or (device.name,)}
            cards.setdefault(one.driver, set()).update((one.pool, name) for name in names)
    for driver, found in cards.items():
        total[card_of(driver)] = len(found)
    for name in {*number, *(row.name for row in state.device_classes.values())}:
        total[DEVICES + name] = number.get(name, sum(number.values()))
    return total


def sized(draft: TreeOverlay, total: Mapping[str, int], read: int) -> TreeMetered | None:
    """The capacity of an elastic tree, where it changed. ``read``: how far the history was read for it."""
    if draft.tree.total == total:
        return None
    return TreeMetered(
        number=draft.number, total=dict(sorted(total.items())), based_on=draft.tree.sequence,
        evidence=Evidence(read),
    )  # fmt: skip
