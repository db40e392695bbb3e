"""Pods at a moment, by blocks of days: each ended pod is in the smallest block around all of it.

So pods of any length are found in few look-ups: those of the blocks around the moment.

Source: the bins of genome browsers (Kent et al. 2002, "The Human Genome Browser at UCSC").
"""

from __future__ import annotations

#: Seconds of the blocks of days: of 1, 8, 64, 512, 4,096 and 32,768.
_WIDTHS = tuple(86_400 << 3 * level for level in range(6))


def block(first_s: int, last_s: int) -> int:
    """The smallest block around both seconds; -1 for none."""
    for level, width_s in enumerate(_WIDTHS):
        if first_s // width_s == last_s // width_s:
            return first_s // width_s * len(_WIDTHS) + level
    return -1


def blocks(first_s: int, last_s: int) -> list[int]:
    """The blocks with any second of [first_s, last_s]: every pod of that time is in one of them."""
    return [-1] + [
        number * len(_WIDTHS) + level
        for level, width_s in enumerate(_WIDTHS)
        for number in range(first_s // width_s, last_s // width_s + 1)
    ]


def is_one_day(first_s: int, last_s: int) -> bool:
    """Whether both seconds lie in one day: then their block is one of one day."""
    return first_s // _WIDTHS[0] == last_s // _WIDTHS[0]


def longer(first_s: int, last_s: int) -> list[int]:
    """The blocks of :func:`blocks` longer than a day."""
    return [number for number in blocks(first_s, last_s) if number % len(_WIDTHS)]
