"""The periods of a budget: the start and the end of an amount's validity.

Source: docs/wrong-input.md (windows are refused at the edge, not here).
"""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from enum import StrEnum
from zoneinfo import ZoneInfo

import msgspec

from bus.events.quotas import Budget

UTC = ZoneInfo("UTC")


class Every(StrEnum):
    """How often a budget begins anew. A week starts on Monday; Total never does."""

    DAY = "Day"
    WEEK = "Week"
    MONTH = "Month"
    TOTAL = "Total"


class Period(msgspec.Struct, frozen=True):
    """[start_s, end_s) in whole seconds UTC; ``end_s`` None: without end.

    ``is_granted`` False: between explicit windows, where there is no budget at all.
    """

    start_s: int
    end_s: int | None
    is_granted: bool = True


class Schedule(msgspec.Struct, frozen=True):
    """When a budget begins anew: every day, week or month of a time zone, or in explicit windows [from, until).

    Windows, in seconds UTC, ascending and not overlapping, take the place of ``every``.
    """

    every: Every = Every.TOTAL
    zone: ZoneInfo = UTC
    windows: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, budget: Budget) -> Schedule:
        """The schedule in a quota's object."""
        every = Every.TOTAL if budget.windows else Every(budget.period)
        return cls(every, ZoneInfo(budget.time_zone), budget.windows)

    def period_at(self, second: int) -> Period:
        """The period around ``second``. Outside of all windows the time between them, without any grant.

        A day longer or shorter by a change of the clock is one day.
        """
        if self.windows:
            return _window_at(self.windows, second)
        if self.every is Every.TOTAL:
            return Period(0, None)
        day = datetime.fromtimestamp(second, self.zone).date()
        if self.every is Every.DAY:
            first, following = day, day + timedelta(days=1)
        elif self.every is Every.WEEK:
            first = day - timedelta(days=day.weekday())
            following = first + timedelta(days=7)
        else:
            first = day.replace(day=1)
            following = (first + timedelta(days=31)).replace(day=1)
        return Period(self._midnight(first), self._midnight(following))

    def _midnight(self, day: date) -> int:
        # Of a repeated midnight the first; of a skipped one the moment of the change.
        return round(datetime.combine(day, time(), self.zone).timestamp())


def _window_at(windows: tuple[tuple[int, int], ...], second: int) -> Period:
    before_s = 0
    for from_s, until_s in windows:
        if second < from_s:
            return Period(before_s, from_s, is_granted=False)
        if second < until_s:
            return Period(from_s, until_s)
        before_s = until_s
    return Period(before_s, None, is_granted=False)
