"""Device summaries: the HTTP answers of Koordinator's plugin DeviceShare about nodes' devices, in its fields. Pure.

Source: koordinator-sh/koordinator, pkg/scheduler/plugins/deviceshare (plugin_service.go); docs/scheduling.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bus.events.devices import FIRST, MOST_MINORS
from reactors.engine.replica import Replica
from reactors.scheduling import NAME
from reactors.scheduling.columns.table import Columns
from reactors.scheduling.devices.boards import kept, parts_of
from reactors.scheduling.devices.rules import Card, summed
from reactors.scheduling.plugins.device_share import DeviceShare
from reactors.scheduling.state import SchedulingState


def summaries(replica: Replica) -> dict[str, dict[str, Any]]:
    """The devices of every node with some."""
    known = _columns(replica)
    if known is None:
        return {}
    found = ((name, summary(replica, name)) for name in known[0].names)
    return {name: one for name, one in found if one is not None}


def summary(replica: Replica, node: str) -> dict[str, Any] | None:
    """The devices of a node, their free room, and the pods on them by a decision or an annotation; None without any."""
    known = _columns(replica)
    row = known[0].row_of.get(node) if known is not None else None
    if known is None or row is None:
        return None
    columns, plugin = known
    devices = {kind: cards for kind, cards in kept(columns, row).devices.items() if cards}
    if not devices:
        return None
    cards = [card for several in devices.values() for card in several]
    return {
        "deviceTotal": summed(card.total for card in cards),
        "deviceFree": summed(card.free for card in cards),
        "deviceUsed": summed(map(_used, cards)),
        "deviceTotalDetail": _detail(devices, [card.total for card in cards]),
        "deviceFreeDetail": _detail(devices, [card.free for card in cards]),
        "deviceUsedDetail": _detail(devices, map(_used, cards)),
        "allocateSet": _allocated(columns, plugin, row),
    }


def _allocated(columns: Columns, plugin: DeviceShare, row: int) -> dict[str, dict[str, Any]]:
    """By kind of device, pod and number: the pod's part."""
    found: dict[str, dict[str, Any]] = {}
    for one in sorted(columns.placed_on(row), key=lambda one: one.pod.uid):
        for kind, part in parts_of(one.pod, plugin.rules).items():
            first = FIRST[kind]
            minors = [card - first for card in one.cards if first <= card < first + MOST_MINORS]
            if minors:
                own = found.setdefault(kind, {})
                own[f"{one.pod.namespace}/{one.pod.name}"] = {
                    str(minor): part.amounts for minor in minors
                }
    return found


def _detail(
    devices: Mapping[str, Sequence[Card]], amounts: Iterable[Mapping[str, int]]
) -> dict[str, dict[str, Mapping[str, int]]]:
    """By kind of device and number."""
    left = iter(amounts)
    return {
        kind: {str(card.minor): next(left) for card in cards} for kind, cards in devices.items()
    }


def _used(card: Card) -> dict[str, int]:
    return {name: amount - card.free.get(name, 0) for name, amount in card.total.items()}


def _columns(replica: Replica) -> tuple[Columns, DeviceShare] | None:
    """The columns and the plugin of the first profile with the plugin."""
    own = replica.states[NAME]
    scheduler = own.scheduler if isinstance(own, SchedulingState) else None
    for framework in scheduler.frameworks.values() if scheduler is not None else ():
        for plugin in framework.filtering.filters:
            if isinstance(plugin, DeviceShare):
                return framework.columns, plugin
    return None
