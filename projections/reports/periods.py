"""Hours and days of a time zone: the cuts of a stretch of seconds, and the names of the pieces."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterator
from datetime import datetime, time, timedelta, timezone, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo

from projections.reports.shape import Period
from projections.timelines import HOUR

Cut = Callable[[int, int], Iterator[tuple[Period, int]]]


def periods(kind: str, zone: ZoneInfo) -> Cut:
    """A function to cut [start, end) at the ``hour`` or ``day`` boundaries of a zone: (period, seconds) each.

    A day longer or shorter by a change of the clock is one day; a repeated hour counts as two, with different
    offsets. A stretch of no length lies in one period.
    """

    def offset(second: int) -> int:
        return round(_local(second, zone).utcoffset().total_seconds())  # type: ignore[union-attr]

    @lru_cache(maxsize=65_536)
    def around(second: int) -> tuple[int, Period]:
        """The end of the period around ``second``, and the period."""
        shift = offset(second)
        if kind == "day":
            today = _local(second, zone).date()
            midnight = datetime.combine(today + timedelta(days=1), time(), zone)
            return max(round(midnight.timestamp()), second + 1), (0, today.isoformat())
        start_s = second - (second + shift) % HOUR
        text = _local(start_s, timezone(timedelta(seconds=shift))).isoformat()
        end_s = start_s + HOUR
        if offset(end_s - 1) != shift:
            # The clock changes within the hour: the first second with the other offset.
            end_s = bisect.bisect_left(range(second, end_s), 1, key=lambda s: offset(s) != shift)
            end_s += second
        return end_s, (start_s, text[:-6] + "Z" if text.endswith("+00:00") else text)

    def cut(start_s: int, end_s: int) -> Iterator[tuple[Period, int]]:
        at_s = start_s
        while True:
            # The keys are quarters of an hour, never divided by boundaries since 1972: few distinct questions.
            until_s, period = around(at_s - at_s % 900)
            if until_s <= at_s:
                until_s, period = around(at_s)
            yield period, min(until_s, end_s) - at_s
            at_s = until_s
            if at_s >= end_s:
                return

    return cut


def _local(second: int, zone: tzinfo) -> datetime:
    return datetime.fromtimestamp(second, zone)
