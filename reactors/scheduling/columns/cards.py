"""Idle thousandths of each GPU card of a node. Pure.

A decision may name the cards of a pod. Cards of other pods are assumed, in the order of the pods' starts: a whole card is the
first idle one, and a share is on the fullest card with room. So the same pods always give the same cards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from bus.amounts import NANO, observed_quantity
from bus.errors import QuantityError
from projections.cluster import Pod

#: Cards of a node with room in the columns from the beginning.
WIDTH = 8
#: Most cards of one node.
MOST_CARDS = 64
#: Thousandths of one card.
WHOLE = 1000

_COUNTED = ("nvidia.com/gpu", "amd.com/gpu", "koordinator.sh/gpu-core", "koordinator.sh/gpu", "kubernetes.io/gpu")  # fmt: skip
_PERCENT = _COUNTED[2:]
_RATIO, _MEMORY, _SHARED = (
    [f"{prefix}/{name}" for prefix in ("koordinator.sh", "kubernetes.io")]
    for name in ("gpu-memory-ratio", "gpu-memory", "gpu.shared")
)


class Holding(msgspec.Struct, frozen=True, gc=False):
    """A pod's holding of a node's cards: ``milli`` of each of ``count`` cards, on the cards ``on`` if known."""

    started_us: int
    count: int
    milli: int
    on: tuple[int, ...] = ()
    #: Bytes of each card, for a request in bytes: the node's cards determine the share.
    size: int = 0

    def part(self, memory: int) -> int:
        """Thousandths of each card of ``memory`` bytes."""
        return min(-(-self.size * WHOLE // memory), WHOLE) if self.size and memory else self.milli


def wanted(pod: Pod, memory: int = 0) -> tuple[int, int]:
    """(cards, thousandths of each) requested by a pod; (0, 0) for none. Beyond one card, a share is whole cards.

    A request of memory alone is for its part of a card of ``memory`` bytes; 0 = the memory of the card is unknown.
    """
    for name in _COUNTED:
        amount = pod.demand.get(f"requests.{name}", 0)
        if not amount:
            continue
        if name not in _PERCENT:
            return min(amount, MOST_CARDS + 1), WHOLE
        if amount < 100:
            return 1, amount * 10
        return min(-(-amount // 100), MOST_CARDS + 1), WHOLE
    return _of_memory(pod, memory)


def _of_memory(pod: Pod, memory: int) -> tuple[int, int]:
    part, size, shared = (_asked(pod, names) for names in (_RATIO, _MEMORY, _SHARED))
    milli = part * 10 if part else -(-size * WHOLE // memory) if memory else 0
    if not milli:
        return 0, 0
    if shared:
        return min(shared, MOST_CARDS + 1), min(-(-milli // shared), WHOLE)
    if part <= 100:
        # A request in bytes is for one card, however large.
        return 1, min(milli, WHOLE)
    return min(-(-part // 100), MOST_CARDS + 1), WHOLE


def _asked(pod: Pod, names: Sequence[str]) -> int:
    return sum(pod.demand.get(f"requests.{name}", 0) for name in names)


def memory_of(allocatable: Mapping[str, str]) -> int:
    """Bytes of memory of each card of a node; 0 if not reported."""
    count = count_of(allocatable)
    try:
        found = next((observed_quantity(allocatable[name]) for name in _MEMORY if name in allocatable), 0)  # fmt: skip
    except QuantityError:
        return 0
    return max(found // NANO, 0) // count if count else 0


def bytes_of(pod: Pod) -> int:
    """Bytes of each card requested by a pod without any other request of cards; 0 = it is no such pod."""
    count, _ = wanted(pod)
    return 0 if count else _asked(pod, _MEMORY) // max(_asked(pod, _SHARED), 1)


def parts_of(pod: Pod) -> tuple[int, int, int]:
    """(cards, thousandths of each, bytes of each) of a pod on any node; no cards = nothing."""
    count, milli = wanted(pod)
    size = bytes_of(pod)
    if size:
        count = min(max(_asked(pod, _SHARED), 1), MOST_CARDS + 1)
    return count, milli, size


def count_of(allocatable: Mapping[str, str]) -> int:
    """How many cards a node offers."""
    for name in _COUNTED:
        try:
            amount = observed_quantity(allocatable[name]) // NANO if name in allocatable else 0
        except QuantityError:
            amount = 0
        if amount > 0:
            return min(amount // 100 if name in _PERCENT else amount, MOST_CARDS)
    return 0


def idle(count: int, holding: Mapping[str, Holding], memory: int = 0) -> list[int]:
    """Idle thousandths of each of ``count`` cards of ``memory`` bytes."""
    left = [WHOLE] * count
    known = [one for one in holding.values() if one.on]
    for one in known:
        for card in one.on:
            if card < count:
                left[card] = max(0, left[card] - one.part(memory))
    if len(known) == len(holding):
        return left
    rest = sorted((one.started_us, uid, one) for uid, one in holding.items() if not one.on)
    for _, _, one in rest:
        part = one.part(memory)
        for _ in range(min(one.count, count)):
            fitting = [(left[card], card) for card in range(count) if left[card] >= part]
            if not fitting:
                break
            left[min(fitting)[1]] -= part
    return left
