"""The time until a budget is used up, or a limit reached: many futures, each of past days' changes. Pure.

A future begins with the spending of the last 24 hours. Each further day spends as much as the one before, plus a
change drawn from those between past days: twice as much, as a change seldom stands alone, and one time in four the
other way, as growth seldom lasts. The same history gives the same futures. The error of such forecasts is measured
on the past itself. For a limit each future day has the largest hour of the one before, plus a change drawn from
those between past days.

Source: docs/quotas.md ("Budget forecasts").
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from random import Random

import msgspec

DAY = 24
#: Days as a source of changes, and the fewest for a forecast.
MOST_DAYS, LEAST_DAYS = 28, 7
#: Tried futures, and the days of each.
FUTURES, AHEAD_DAYS = 300, 92
#: Past forecasts compared with the outcome, and their days ahead.
TRIES, TRIED_DAYS = 24, 7


class Outlook(msgspec.Struct, frozen=True):
    """The hours until a budget is used up: in one of ten futures by the ``earliest``, in half of them by
    ``likely``, in nine of ten by the ``latest``; None = not within the requested hours. ``chance``: futures of a
    thousand with exhaustion.
    """

    earliest: int | None
    likely: int | None
    latest: int | None
    chance: int


class Tested(msgspec.Struct, frozen=True):
    """The results of forecasts for the past.

    ``off`` and ``straight_off``: the largest error in hours of the better half, and the same for straight lines
    from the last hour's spending. ``held``: the number of moments, out of ``count``, between earliest and latest.
    """

    count: int
    off: int
    straight_off: int
    held: int


def outlook(hours: Sequence[int], left: int, most_hours: int | None, seed: str) -> Outlook | None:
    """The time until ``left`` is spent. ``hours``: the spending of each past hour, the newest last; None for too
    few.

    ``most_hours``: the hours to the end of the period; None = it has none.
    """
    days = _days(hours)
    if len(days) < LEAST_DAYS:
        return None
    bound = AHEAD_DAYS * DAY if most_hours is None else min(most_hours, AHEAD_DAYS * DAY)
    return _outlook(_reached(days, max(0, left), seed), bound)


def limit_outlook(hours: Sequence[int], limit: int, seed: str) -> Outlook | None:
    """The time until an hour uses ``limit``. ``hours``: the usage of each past hour, the newest last; None for too few."""
    days = _days(hours, max)
    if len(days) < LEAST_DAYS:
        return None
    return _outlook(_grown(days, limit, seed), AHEAD_DAYS * DAY)


def _outlook(hours: Sequence[int], bound: int) -> Outlook:
    """From the hours each future takes to reach it."""
    found = sorted(hours)
    reached = [min(one, bound + 1) for one in found]

    def at(part: int) -> int | None:
        one = reached[part * (FUTURES - 1) // 10]
        return one if one <= bound else None

    return Outlook(at(1), at(5), at(9), 1_000 * sum(one <= bound for one in reached) // FUTURES)


def looked_back(hours: Sequence[int], seed: str) -> Tested | None:
    """The results of forecasts for the past, each about the amount used up so many days later; None with too little past."""
    ahead = TRIED_DAYS * DAY
    first, last = LEAST_DAYS * DAY, len(hours) - ahead
    if last <= first:
        return None
    off, straight, held = [], [], 0
    for number in range(TRIES):
        now = first + (last - first) * number // (TRIES - 1)
        spent = sum(hours[now : now + ahead])
        found = outlook(hours[:now], spent, None, f"{seed}/{now}") if spent else None
        if found is None:
            continue
        likely = AHEAD_DAYS * DAY if found.likely is None else found.likely
        rate = hours[now - 1]
        line = min(-(-spent // rate), AHEAD_DAYS * DAY) if rate else AHEAD_DAYS * DAY
        off.append(abs(likely - ahead))
        straight.append(abs(line - ahead))
        held += _holds(found, ahead)
    return _tested(off, straight, held)


def limit_looked_back(hours: Sequence[int], seed: str) -> Tested | None:
    """The results of past forecasts about limits, each about the largest hour of the following days, if it was more
    than in the day before. Straight lines continue the largest hours of the last week.
    """
    ahead = TRIED_DAYS * DAY
    first, last = LEAST_DAYS * DAY, len(hours) - ahead
    off, straight, held = [], [], 0
    for number in range(TRIES if last > first else 0):
        now = first + (last - first) * number // (TRIES - 1)
        limit = max(hours[now : now + ahead])
        found = limit_outlook(hours[:now], limit, f"{seed}/{now}")
        if found is None or limit <= max(hours[now - DAY : now]):
            continue
        came = hours.index(limit, now) - now + 1
        days = _days(hours[:now], max)
        slope = (days[-1] - days[-LEAST_DAYS]) / ((LEAST_DAYS - 1) * DAY)
        line = min((limit - days[-1]) / slope, AHEAD_DAYS * DAY) if slope > 0 else AHEAD_DAYS * DAY
        likely = AHEAD_DAYS * DAY if found.likely is None else found.likely
        off.append(abs(likely - came))
        straight.append(abs(round(line) - came))
        held += _holds(found, came)
    return _tested(off, straight, held)


def _holds(found: Outlook, came: int) -> bool:
    """Whether the outcome after so many hours lies within the interval."""
    is_early = found.earliest is None or found.earliest > came
    return not is_early and (found.latest is None or found.latest >= came)


def _tested(off: Sequence[int], straight: Sequence[int], held: int) -> Tested | None:
    if not off:
        return None
    middle = len(off) // 2
    return Tested(len(off), sorted(off)[middle], sorted(straight)[middle], held)


def _days(hours: Sequence[int], of: Callable[[Sequence[int]], int] = sum) -> list[int]:
    """The spending of whole days up to now, the newest last, from the first hour with any spending."""
    first = next((at for at, one in enumerate(hours) if one), len(hours))
    count = min((len(hours) - first) // DAY, MOST_DAYS + 1)
    begins = range(len(hours) - count * DAY, len(hours), DAY)
    return [of(hours[at : at + DAY]) for at in begins]


def _reached(days: Sequence[int], left: int, seed: str) -> list[int]:
    """By future: the hours until ``left`` is spent, above all examined hours if it never is."""
    random = Random(seed)
    changes = [2 * (later - earlier) for earlier, later in pairwise(days)]
    # One in four goes the other way.
    drawn = [*changes * 3, *(-one for one in changes)]
    found = []
    for _ in range(FUTURES):
        level, spent = days[-1], 0
        for day in range(AHEAD_DAYS):
            level = max(0, level + drawn[random.randrange(len(drawn))])
            if spent + level >= left:
                part = -(-DAY * (left - spent) // level) if level else 0
                found.append(day * DAY + part)
                break
            spent += level
        else:
            found.append(AHEAD_DAYS * DAY + 1)
    return found


def _grown(days: Sequence[int], limit: int, seed: str) -> list[int]:
    """By future: the hours until an hour uses ``limit``, above all examined hours if none does."""
    random = Random(seed)
    changes = [later - earlier for earlier, later in pairwise(days)]
    found = []
    for _ in range(FUTURES):
        level = days[-1]
        for day in range(AHEAD_DAYS):
            if level >= limit:
                found.append(day * DAY)
                break
            level = max(0, level + changes[random.randrange(len(changes))])
        else:
            found.append(AHEAD_DAYS * DAY + 1)
    return found
