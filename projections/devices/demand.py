"""The largest number of devices of a claim, or of a template of claims, before its allocation is observed. Pure.

Amounts by resource: ``dra/<class>`` counts devices, ``<vendor>/gpu`` cards and parts of cards, ``gpu-memory`` the
bytes of device memory.

Source: docs/devices.md ("Devices in quotas").
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

import msgspec

from bus.events.devices import (
    CARD_DRIVERS,
    Allocation,
    DeviceAsk,
    DeviceRequest,
    DeviceResult,
)

#: Drivers with cards as devices.
GPU_DRIVERS = CARD_DRIVERS

#: Resources of whole accelerators, and their names without a label. A template of Ascend (``910-2c``) is a part of
#: one.
ACCELERATORS = re.compile(
    r"huawei\.com/Ascend[0-9]+([A-Z][0-9]*)?(-[0-9]+)?|habana\.ai/gaudi|google\.com/tpu|aws\.amazon\.com/neuron|gpu\.intel\.com/(i915|xe)"
)

#: Resource names for a class: one device of it each.
IMPLICIT = "deviceclass.resource.kubernetes.io/"
#: Most devices of one claim, whatever its requests.
MOST = 32
#: A journal holds no more (64 bits).
LARGEST = 2**63 - 1
DEVICES, MEMORY = "dra/", "gpu-memory"


def serving_class(resource: str, serves: Mapping[str, str]) -> str:
    """The class behind an extended resource, by ``serves`` or by its implicit name; "" = unknown."""
    if resource.startswith(IMPLICIT):
        return resource.removeprefix(IMPLICIT)
    return serves.get(resource, "")


def is_card(resource: str) -> bool:
    """Whether a resource of this name counts as a card."""
    return resource.endswith("/gpu") or ACCELERATORS.fullmatch(resource) is not None


def card_of(driver: str) -> str:
    """The counting resource for the cards of a GPU driver: ``nvidia.com/gpu`` of ``gpu.nvidia.com``."""
    return f"{driver.removeprefix('gpu.')}/gpu"


class Sizes(msgspec.Struct):
    """The known classes and drivers.

    ``cards``: class to the counting resource of its cards; of other classes only devices count. ``memory``: GPU
    driver to the bytes of its largest device.
    """

    cards: dict[str, str]
    memory: dict[str, int]

    def card(self, name: str) -> str:
        """The counting resource for the cards of a class; "" = its devices are not cards."""
        return self.cards.get(name) or (card_of(name) if name in GPU_DRIVERS else "")

    def memory_of(self, name: str) -> int:
        """The largest memory of a device in a class of cards, in bytes."""
        if name in GPU_DRIVERS:
            return self.memory.get(name, 0)
        return max(self.memory.values(), default=0)


def card_class(name: str, extended_name: str) -> str:
    """The counting resource for the cards of a class, by its names; "" = unknown."""
    if is_card(extended_name):
        return extended_name
    return card_of(name) if name in GPU_DRIVERS else ""


def asked(requests: Iterable[DeviceRequest], sizes: Sizes) -> dict[str, int]:
    """The largest allocation of these requests: of a prioritized list the largest of each key."""
    found: dict[str, int] = {}
    for request in requests:
        largest: dict[str, int] = {}
        for ask in request.asks:
            for key, amount in one_of(ask, sizes).items():
                largest[key] = max(largest.get(key, 0), amount)
        add(found, largest)
    return found


def given(
    requests: Iterable[DeviceRequest],
    allocation: Allocation,
    sizes: Sizes,
    memory_of: Callable[[DeviceResult], int],
) -> dict[str, int]:
    """The amounts of an allocation. The chosen entry of a prioritized list is unknown: the largest counts."""
    results = [one for one in allocation.results if not one.is_admin]
    classes: dict[str, str] = {}
    found: dict[str, int] = {}
    for request in requests:
        mine = [one for one in results if one.request.partition("/")[0] == request.name]
        if len(request.asks) == 1 and mine:
            classes[request.name] = name = request.asks[0].device_class
            add(found, {DEVICES + name: len(mine)})
        else:
            most = asked((request,), sizes)
            add(found, {key: n for key, n in most.items() if key.startswith(DEVICES)})
    for one in results:
        if one.driver in GPU_DRIVERS:
            card = sizes.card(classes.get(one.request, "")) or card_of(one.driver)
            add(found, {card: 1, MEMORY: memory_of(one)})
    return found


def classes_given(claim_requests: Iterable[DeviceRequest], given: Allocation) -> dict[str, str]:
    """The classes of a claim's allocated cards, and their counting resources."""
    asks = {one.name: one.asks for one in claim_requests if len(one.asks) == 1}
    return {
        asks[one.request][0].device_class: card_of(one.driver)
        for one in given.results
        if one.driver in GPU_DRIVERS and one.request in asks
    }


def one_of(ask: DeviceAsk, sizes: Sizes) -> dict[str, int]:
    """One way to satisfy a request. Administrative access holds nothing."""
    count = 0 if ask.is_admin else MOST if ask.mode == "All" else min(ask.count, MOST)
    if not count:
        return {}
    name = ask.device_class
    found = {DEVICES + name: count}
    if card := sizes.card(name):
        found[card] = count
        if memory := sizes.memory_of(name):
            found[MEMORY] = count * memory
    return found


def add(total: dict[str, int], amounts: dict[str, int], times: int = 1) -> None:
    """Add amounts to a total bounded by 64 bits: a larger sum is above any limit."""
    for key, amount in amounts.items():
        if amount:
            total[key] = min(total.get(key, 0) + amount * times, LARGEST)
