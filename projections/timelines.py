"""The values of one thing's attribute over time: the part of a fold independent of arrival order.

A *history* is the set of observations of one thing, each a (resourceVersion, time, value), kept sorted by the order
rule of docs/accounting.md. Adding is commutative and idempotent, so two readers of the same set hold the same
history, however it reached them. :func:`changes` reads the start of each value from it.

Alternatives refused: keeping only the changes of the value is smaller, but a late observation between two equal
ones then loses the return of the old value; asking the archive about late observations makes a fold do IO.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

MICROSECONDS = 1_000_000
#: Seconds.
HOUR = 3_600
DAY = 86_400

#: A history keeps at least this many of its newest observations one by one; older ones only where the value changes.
#: So an observation may come late by this many observations of the same thing and still be booked exactly.
KEPT = 256

#: (resourceVersion, time in microseconds, value); values must be comparable with ==.
Point = tuple[str, int, Any]
History = tuple[Point, ...]


def is_ordered(version: str) -> bool:
    """Whether a resourceVersion takes part in the order: decimal, no leading zero, ASCII."""
    return version.isdecimal() and version.isascii() and (version[0] != "0" or version == "0")


def precedes(version: str, time_us: int, other_version: str, other_time_us: int) -> bool:
    """Whether one observation comes before another: by resourceVersion where both are ordered, else by time.

    The text decides between unordered versions of one moment, so arrival never does.
    """
    if is_ordered(version) and is_ordered(other_version):
        return (len(version), version) < (len(other_version), other_version)
    return (time_us, version) < (other_time_us, other_version)


def replaces(version: str, time_us: int, known: tuple[str, int] | None) -> bool:
    """Whether an observation takes the place of ``known`` as the newest: it comes after it, or is the same version,
    seen earlier.
    """
    if known is None or precedes(*known, version, time_us):
        return True
    return version == known[0] and is_ordered(version) and time_us < known[1]


def added(history: History, version: str, time_us: int, value: Any) -> History:
    """``history`` with one more observation. The same version again keeps the earlier of the two times."""
    if not history:
        return ((version, time_us, value),)
    newest = history[-1]
    if is_ordered(version) and is_ordered(newest[0]):
        grown = (len(version), version)
        last = (len(newest[0]), newest[0])
        if grown > last:
            return _bounded((*history, (version, time_us, value)))
        if grown == last and (newest[1] < time_us or newest == (version, time_us, value)):
            return history
    return _bounded(_inserted(history, (version, time_us, value)))


def changes(history: History) -> list[tuple[int, Any]]:
    """(first second, value), oldest first, no two equal values in a row; empty for no observation.

    A value holds from the floored time of its first observation. A value replaced by a later version cannot begin
    after that version's observation, so a delayed observation does not undo a newer one. Of two changes in one
    second the later one counts; the first value is no change, so it stays first: readers let it hold for all time
    before.
    """
    if len(history) == 1:
        return [(history[0][1] // MICROSECONDS, history[0][2])]
    if not history:
        return []
    begins = []
    earliest = history[-1][1]
    for _, time_us, value in reversed(history):
        earliest = min(earliest, time_us)
        begins.append((earliest // MICROSECONDS, value))
    held: list[tuple[int, Any]] = []
    for second, value in reversed(begins):
        if held and held[-1][1] == value:
            continue
        if len(held) > 1 and held[-1][0] == second:
            held.pop()
            if held[-1][1] == value:
                continue
        held.append((second, value))
    return held


def at(changes: list[tuple[int, Any]], second: int) -> Any:
    """The value at ``second``; the first one holds for all time before. None for no observation."""
    value = changes[0][1] if changes else None
    for begin, held in changes:
        if begin > second:
            break
        value = held
    return value


def _inserted(history: History, point: Point) -> History:
    if point in history:
        return history
    points = [p for p in history if p[0] != point[0] or not point[0]]
    same = [p for p in history if p[0] == point[0] and point[0]]
    # One version is one value; after a writer's violation, arrival must not choose.
    points.append(min([*same, point], key=lambda p: (p[1], repr(p[2]))))
    if all(is_ordered(p[0]) for p in points):
        points.sort(key=lambda p: (len(p[0]), p[0]))
    else:
        points.sort(key=lambda p: (p[1], p[0], repr(p[2])))
    return tuple(points)


def _bounded(history: History) -> History:
    if len(history) < 2 * KEPT:
        return history
    old, new = history[:-KEPT], history[-KEPT:]
    kept = [old[0]]
    for point in old[1:]:
        if point[2] != kept[-1][2]:
            kept.append(point)
    return (*kept, *new)


def distinct(changes: Iterable[tuple[int, Any]]) -> list[tuple[int, Any]]:
    """``changes`` without repetitions of the value before."""
    held: list[tuple[int, Any]] = []
    for second, value in changes:
        if not held or held[-1][1] != value:
            held.append((second, value))
    return held


def later(one: tuple[str, int] | None, other: tuple[str, int]) -> tuple[str, int]:
    """The newer of two (resourceVersion, time)."""
    return other if one is None or replaces(*other, one) else one


def first_difference(before: list[tuple[int, Any]], after: list[tuple[int, Any]]) -> int | None:
    """The first second with a difference between two lists of changes; None for equal ones.

    The first value holds for ever before, so a difference there is the beginning of time.
    """
    if before == after:
        return None
    if not before or not after or before[0][1] != after[0][1]:
        return -(2**62)
    seconds = {second for second, _ in (*before[1:], *after[1:])}
    return next((s for s in sorted(seconds) if at(before, s) != at(after, s)), None)


def is_gone(history: History, gone: tuple[str, int] | None) -> bool:
    """Whether the newest delete is the last event, without a later observation (of a namesake created again)."""
    return gone is not None and not (
        history and precedes(gone[0], gone[1], history[-1][0], history[-1][1])
    )
