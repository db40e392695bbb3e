"""Which thousandths of which GPU card of a node are idle. Pure.

A decision may name the cards of a pod. Of the others, whose cards nobody told, a whole card is taken to be the first
idle one and a share to lie on the fullest card that has room, pods in the order in which they began, so that the same
pods always give the same cards.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from bus.amounts import NANO, observed_quantity
from bus.errors import QuantityError
from projections.cluster import Pod

#: Cards of a node that the columns have room for from the beginning.
WIDTH = 8
#: Most cards of one node that are told apart.
MOST_CARDS = 64
#: Thousandths of one card.
WHOLE = 1000

_COUNTED = ("nvidia.com/gpu", "amd.com/gpu", "koordinator.sh/gpu-core", "koordinator.sh/gpu", "kubernetes.io/gpu")  # fmt: skip
_PERCENT = _COUNTED[2:]


class Holding(msgspec.Struct, frozen=True, gc=False):
    """What a pod has of a node's cards: ``milli`` of each of ``count`` cards, on ``on`` where that is known."""

    started_us: int
    count: int
    milli: int
    on: tuple[int, ...] = ()


def wanted(pod: Pod) -> tuple[int, int]:
    """(cards, thousandths of each) that a pod requests; (0, 0) for none. Beyond one card, a share is whole cards."""
    for name in _COUNTED:
        amount = pod.demand.get(f"requests.{name}", 0)
        if not amount:
            continue
        if name not in _PERCENT:
            return min(amount, MOST_CARDS + 1), WHOLE
        if amount < 100:
            return 1, amount * 10
        return min(-(-amount // 100), MOST_CARDS + 1), WHOLE
    return 0, 0


def holding_of(pod: Pod, on: tuple[int, ...]) -> Holding | None:
    """What a pod has of the cards of its node; None for nothing."""
    count, milli = wanted(pod)
    return Holding(pod.started_us, count, milli, on) if count else None


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


def idle(count: int, holding: Mapping[str, Holding]) -> list[int]:
    """Idle thousandths of each of ``count`` cards."""
    left = [WHOLE] * count
    known = [one for one in holding.values() if one.on]
    for one in known:
        for card in one.on:
            if card < count:
                left[card] = max(0, left[card] - one.milli)
    if len(known) == len(holding):
        return left
    rest = sorted((one.started_us, uid, one) for uid, one in holding.items() if not one.on)
    for _, _, one in rest:
        for _ in range(min(one.count, count)):
            fitting = [(left[card], card) for card in range(count) if left[card] >= one.milli]
            if not fitting:
                break
            left[min(fitting)[1]] -= one.milli
    return left
