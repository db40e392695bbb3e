"""Adds pods up by group and day (UTC), one step per stretch, however long it is.

A stretch of a year adds the same to each of its days: only the difference from one day to the next is kept, and
summed once at the end.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

import msgspec

from projections.reports.pieces import HELD, Stretch, add
from projections.reports.shape import Key, Sums
from projections.timelines import DAY

#: The sums of a day, in the order of the fields of :class:`Sums`.
_Vector = list[int]
_FIELDS = Sums.__struct_fields__


class ByDay:
    """Pods by group and day. ``place`` is the position of the day in keys."""

    def __init__(self, place: int) -> None:
        self._place = place
        #: By group: the difference of a day to the day before it.
        self._changes: dict[Key, dict[int, _Vector]] = defaultdict(dict)

    def add(self, pod: Iterable[Stretch], sign: int = 1) -> None:
        """Add one pod, or take it away; its keys are without days."""
        there: dict[tuple[Key, int], list[tuple[int, int]]] = defaultdict(list)
        # Most pods have many stretches in one day.
        within: dict[tuple[Key, int], Sums] = {}
        for key, kind, lo, hi, holding in pod:
            first, last = lo // DAY, max(lo, hi - 1) // DAY
            there[(key, 0)].append((first, last))
            if kind == HELD:
                there[(key, 1)].append((first, last))
            until = hi if first == last else (first + 1) * DAY
            for day, seconds in ((first, until - lo), (last, hi - last * DAY))[
                : 1 + (first < last)
            ]:
                sums = within.get((key, day))
                if sums is None:
                    sums = within[(key, day)] = Sums()
                add(sums, kind, sign * seconds, holding)
            if first + 1 < last:
                whole = Sums()
                add(whole, kind, sign * DAY, holding)
                self._change(key, first + 1, last - 1, msgspec.structs.astuple(whole))
        for (key, place), days in there.items():
            for first, last in _apart(days):
                if first == last:
                    sums = within[(key, first)]
                    setattr(sums, _FIELDS[place], getattr(sums, _FIELDS[place]) + sign)
                else:
                    one = [0] * len(_FIELDS)
                    one[place] = sign
                    self._change(key, first, last, one)
        for (key, day), sums in within.items():
            self._change(key, day, day, msgspec.structs.astuple(sums))

    def into(self, totals: dict[Key, Sums]) -> None:
        """Add the days to the sums of their groups."""
        for key, changes in self._changes.items():
            now = [0] * len(_FIELDS)
            days = sorted(changes)
            for day, following in zip(days, [*days[1:], days[-1]], strict=True):
                now = [a + b for a, b in zip(now, changes[day], strict=True)]
                if any(now):
                    for number in range(day, following):
                        self._put(totals, key, number, now)

    def _put(self, totals: dict[Key, Sums], key: Key, number: int, now: _Vector) -> None:
        day = (0, datetime.fromtimestamp(number * DAY, UTC).date().isoformat())
        sums = totals[(*key[: self._place], day, *key[self._place :])]
        for name, amount in zip(_FIELDS, now, strict=True):
            setattr(sums, name, getattr(sums, name) + amount)

    def _change(self, key: Key, first: int, last: int, each: Sequence[int]) -> None:
        """``each`` on every day from ``first`` to ``last``."""
        changes = self._changes[key]
        for day, sign in ((first, 1), (last + 1, -1)):
            known = changes.get(day)
            if known is None:
                changes[day] = [sign * one for one in each]
            else:
                for place, one in enumerate(each):
                    known[place] += sign * one


def _apart(days: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same days in disjoint intervals."""
    found: list[tuple[int, int]] = []
    for first, last in sorted(days):
        if found and first <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return found
