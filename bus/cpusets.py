"""Lists of CPUs as Linux writes them: ``0-3,8``. Pure.

Source: Linux, cpuset(7), "List format".
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

#: No node has a CPU of a higher number.
HIGHEST_CPU = 8_191
#: Longest readable list.
LONGEST = 64 * 1024


def parsed(text: str) -> frozenset[int] | None:
    """The CPUs of a list; None where it is none."""
    if len(text) > LONGEST:
        return None
    found = 0
    for part in text.split(",") if text else ():
        one = _range(part)
        if one is None:
            return None
        found |= one
    return frozenset(_numbers(found))


def readable(text: str, most: int) -> str:
    """The CPUs in the readable parts of a list, at most ``most``, lowest numbers first."""
    found = 0
    for part in text[:LONGEST].split(","):
        found |= _range(part.strip()) or 0
    return written(islice(_numbers(found), most))


def written(cpus: Iterable[int]) -> str:
    """A list of these CPUs, with ranges where they are neighbours."""
    ranges: list[list[int]] = []
    for cpu in sorted(cpus):
        if ranges and cpu == ranges[-1][1] + 1:
            ranges[-1][1] = cpu
        else:
            ranges.append([cpu, cpu])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in ranges)


def _range(part: str) -> int | None:
    """The CPUs of one part, a bit for each: a list may name all of them very many times."""
    first, dash, last = part.partition("-")
    low = _number(first)
    high = _number(last) if dash else low
    if low is None or high is None or high < low:
        return None
    return (1 << (high + 1)) - (1 << low)


def _numbers(bits: int) -> Iterable[int]:
    return (at for at in range(bits.bit_length()) if bits >> at & 1)


def _number(text: str) -> int | None:
    # Digits of other scripts are digits to Python.
    if not text.isascii() or not text.isdigit() or len(text) > 4:
        return None
    number = int(text)
    return number if number <= HIGHEST_CPU else None
