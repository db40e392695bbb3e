"""Koordinator's arithmetic of load: the estimated use of a pod, and the fill of a node with it, in integers. Pure.

Cpu is in milli, memory in bytes. Arguments are numbers or columns of them; amounts are below 2**50.

Source: koordinator-sh/koordinator, pkg/scheduler/plugins/loadaware (v1.0.0, and its current release);
kubernetes-sigs/scheduler-plugins, pkg/trimaran/targetloadpacking; docs/scheduling.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from reactors.scheduling.columns.nodes import Bools, Ints
from reactors.scheduling.framework.contract import HIGHEST

#: Cpu and memory of a pod without requests.
EMPTY = (250, 200 * 2**20)
#: The interval of a node's measurements, without one in its NodeMetric.
INTERVAL_SECONDS = 60
#: Limit of sums of loads: products with a few hundred stay inside 64 bits.
MOST_LOAD = 2**54
#: Keeps products of a load and two percentages inside 64 bits.
_MOST_LOAD = 2**47


def estimated(request: int, limit: int, factor: int, empty: int, *, is_v1: bool) -> int:
    """The estimated use of a resource by a pod: so many percent of its request, or of a larger limit.

    Version 1.0 counts a larger limit in full, and of a pod without a limit nothing at all.
    """
    amount = request
    if limit > request:
        amount, factor = limit, 100 if is_v1 else factor
    if not amount:
        return empty
    found = (2 * amount * factor + 100) // 200
    return min(found, limit) if limit > 0 or is_v1 else found


def is_expired(ages_us: Ints, expires_us: int) -> Bools:
    """Whether measurements are too old."""
    return ages_us >= expires_us


def is_unseen(assigned_us: int, updated_us: int, interval_us: int, *, is_v1: bool) -> bool:
    """Whether a measurement may not show a pod yet: the pod is newer, or less than one interval older.

    Version 1.0 excludes a pod of the very moment of the measurement.
    """
    since_us = updated_us - assigned_us
    return since_us < interval_us and not (is_v1 and since_us == 0)


def percent(used: Ints, capacity: Ints) -> Ints:
    """Percent of the capacity, rounded to the nearest; a half is rounded up."""
    some = np.maximum(capacity, 1)
    return np.asarray((200 * used + some) // (2 * some))


def is_over(used: Ints, capacity: Ints, thresholds: Ints, *, is_v1: bool) -> Bools:
    """The nodes too full; a threshold or a capacity of 0 is ignored. Version 1.0 refuses the threshold itself, too."""
    found = percent(used, capacity)
    over = found >= thresholds if is_v1 else found > thresholds
    return over & (thresholds > 0) & (capacity > 0)


def score(
    used: Sequence[Ints], capacity: Sequence[Ints], weights: Sequence[int], dominant: int
) -> Ints:
    """0 to 100: the part left free, a mean over the resources; ``dominant`` is the weight of the fullest of them."""
    free = [
        np.where((a > b) | (b == 0), 0, (b - a) * HIGHEST // np.maximum(b, 1))
        for a, b in zip(used, capacity, strict=True)
    ]
    total = sum(weights) + dominant
    worst = np.minimum.reduce(free)
    whole = sum(one * weight for one, weight in zip(free, weights, strict=True)) + worst * dominant
    return np.asarray(whole // max(total, 1))


def packed(used: Ints, capacity: Ints, target: int) -> Ints:
    """0 to 100: the nearer to ``target`` percent the better; above it steeply less, and 0 above the whole."""
    used, capacity = np.minimum(used, _MOST_LOAD), np.clip(capacity, 1, _MOST_LOAD)
    rises = target + _nearest((HIGHEST - target) * HIGHEST * used, target * capacity)
    falls = _nearest(target * HIGHEST * (capacity - used), (HIGHEST - target) * capacity)
    found = np.where(HIGHEST * used <= target * capacity, rises, falls)
    return np.where(used > capacity, 0, found)


def picked(by_seconds: Mapping[int, int | None], seconds: int, instant: int | None) -> int | None:
    """The report over a duration; 0 = the longest reported, else the use now. None = no report."""
    if seconds:
        return by_seconds.get(seconds)
    known = [key for key, amount in by_seconds.items() if amount is not None]
    return by_seconds[max(known)] if known else instant


def _nearest(number: Ints, divisor: Ints) -> Ints:
    return (number + divisor // 2) // divisor
