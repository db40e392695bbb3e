"""Patterns: the worth of the room left on a card. Prices come from the best way to cut the known shares out of cards.

Shares of 810 leave 190, almost useless; two of 470 leave 60. The arriving shares determine the wasted leftovers, as in a mill for
rolls: the linear program to cover all shares with the fewest cards gives each size of share a price in cards, and a leftover is
worth the dearest set of shares fitting into it.

Source: Gilmore and Gomory, "A Linear Programming Approach to the Cutting-Stock Problem", Operations Research 9 (1961).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from reactors.scheduling.columns.cards import WHOLE
from reactors.scheduling.columns.table import Ints
from reactors.scheduling.packing.fragmentation import Floats

#: Sizes are counted in these thousandths, rounded up.
STEP = 10
UNITS = WHOLE // STEP
#: Most exchanges of a pattern. The prices are useful before they are the best.
ROUNDS = 300
_NOTHING = 1e-9


def room_values(shares: Mapping[int, int]) -> Ints:
    """The worth of 0, 10, … 1,000 idle thousandths of a card, in thousandths, by the number of arrived shares of each size."""
    counts: dict[int, int] = {}
    for milli, count in shares.items():
        size = -(-milli // STEP)
        counts[size] = counts.get(size, 0) + count
    sizes = sorted(counts)
    values: Floats = np.zeros(UNITS + 1)
    if sizes:
        values = _dearest(sizes, _prices(sizes, [counts[size] for size in sizes]))[0]
    found = np.minimum(np.rint(values * WHOLE).astype(np.int64), WHOLE)
    found[UNITS] = WHOLE
    return found


def _prices(sizes: list[int], counts: list[int]) -> Floats:
    """Simplex over patterns; a column enters while its shares are worth more than a card."""
    # The basis has a pattern for each size; it begins with cards of one size only. Its inverse, the use of each pattern and the
    # prices follow each exchange by whole rows: no sum has an order chosen by a machine.
    parts = np.array([1.0 / (UNITS // size) for size in sizes])
    inverse, used, prices = np.diag(parts), np.array(counts) * parts, parts.copy()
    for _ in range(ROUNDS):
        if prices.min() < -_NOTHING:
            # More of this size than requested costs nothing.
            size = int(prices.argmin())
            column, gain = np.zeros(len(sizes)), float(prices[size])
            column[size] = -1.0
        else:
            values, column = _dearest(sizes, prices)
            gain = 1.0 - values[UNITS]
            if gain >= -_NOTHING:
                break
        step = np.zeros(len(sizes))
        for at in np.flatnonzero(column):
            step += inverse[:, at] * column[at]
        ratios = np.where(step > _NOTHING, used / np.where(step > _NOTHING, step, 1), np.inf)
        leaving = int(ratios.argmin())
        if not np.isfinite(ratios[leaving]):
            break
        row, amount = inverse[leaving] / step[leaving], used[leaving] / step[leaving]
        inverse -= step[:, None] * row
        used -= step * amount
        inverse[leaving], used[leaving] = row, amount
        prices += gain * row
    return np.asarray(np.maximum(prices, 0))


def _dearest(sizes: list[int], prices: Floats) -> tuple[Floats, Floats]:
    """(the worth of the dearest set of shares fitting into each room, that set for a whole card)."""
    values, chosen = [0.0] * (UNITS + 1), [-1] * (UNITS + 1)
    priced = [
        (at, size, float(prices[at])) for at, size in enumerate(sizes) if prices[at] > _NOTHING
    ]
    for room in range(1, UNITS + 1):
        best, which = values[room - 1], -1
        for at, size, price in priced:
            if size > room:
                break
            worth = values[room - size] + price
            if worth > best + _NOTHING:
                best, which = worth, at
        values[room], chosen[room] = best, which
    pattern, room = np.zeros(len(sizes)), UNITS
    while room > 0:
        which = chosen[room]
        if which >= 0:
            pattern[which] += 1
        room -= sizes[which] if which >= 0 else 1
    return np.array(values), pattern
