"""Forecasts of exhausted budgets and reached limits, with the error of past forecasts: from the ledger.

The same answer for the command line, the metrics and the status of quotas.

Source: docs/quotas.md ("Budget forecasts").
"""

from __future__ import annotations

import msgspec

from projections.budgets.outlook import (
    Outlook,
    Tested,
    limit_looked_back,
    limit_outlook,
    looked_back,
    outlook,
)
from projections.budgets.queries import Select, hourly
from projections.timelines import HOUR

#: So far the past is looked at.
PAST_S = 70 * 24 * HOUR
_MIB = 2**20


class Forecast(msgspec.Struct, frozen=True):
    """Seconds UTC, None = not within the period, or not in 92 days; see :class:`projections.budgets.outlook.Outlook`.

    ``chance`` of a thousand. ``off_s``: by how much half of ``tried`` forecasts of the past were wrong at most, and
    ``straight_off_s`` straight lines; None = there is too little of it. ``held``: in how many of them the moment lay between.
    """

    earliest_s: int | None
    likely_s: int | None
    latest_s: int | None
    chance: int
    tried: int = 0
    held: int = 0
    off_s: int | None = None
    straight_off_s: int | None = None


def forecast_budget(
    select: Select, cluster: str, quota: str, key: str, *, left: int, end_s: int | None, now_s: int,
    is_tested: bool = True,
) -> Forecast | None:  # fmt: skip
    """The time until ``left`` of a budget (``key`` without ``cash/``, unit·seconds) is spent; None for an exhausted
    one, or with too little past.

    ``is_tested``: whether past forecasts are tried, too (ten times as long).
    """
    until_s = now_s - now_s % HOUR
    spent = hourly(select, cluster, quota, key, until_s - PAST_S, until_s)
    most = None if end_s is None else max(0, (end_s - until_s) // HOUR)
    seed = f"{quota}/{key}/{until_s}"
    found = outlook(spent, left, most, seed) if left > 0 else None
    past = looked_back(spent, seed) if found is not None and is_tested else None
    return _forecast(found, past, until_s)


def forecast_limit(
    select: Select, cluster: str, quota: str, key: str, *, limit: int, now_s: int, is_tested: bool = True
) -> Forecast | None:  # fmt: skip
    """The time until a quota's usage reaches one of its limits (``hard``, in the measures of its object); None for
    a resource outside of the ledger, or with too little past.
    """
    until_s = now_s - now_s % HOUR
    spent = hourly(select, cluster, quota, key, until_s - PAST_S, until_s)
    seed = f"{quota}/{key}/{until_s}"
    # Amount·seconds of an hour, as the ledger has them.
    bound = HOUR * measured(key, limit)
    found = limit_outlook(spent, bound, seed) if any(spent) else None
    past = limit_looked_back(spent, seed) if found is not None and is_tested else None
    return _forecast(found, past, until_s)


def measured(key: str, limit: int) -> int:
    """A limit in the ledger's measure: milli-cores, milli-cards, MiB."""
    if "/" in key:
        return 1_000 * limit
    return limit // _MIB if key.partition(".")[2].startswith("memory") else limit


def _forecast(found: Outlook | None, past: Tested | None, until_s: int) -> Forecast | None:
    if found is None:
        return None

    def at(hours: int | None) -> int | None:
        return None if hours is None else until_s + hours * HOUR

    moments = at(found.earliest), at(found.likely), at(found.latest)
    if past is None:
        return Forecast(*moments, found.chance)
    off_s, straight_off_s = past.off * HOUR, past.straight_off * HOUR
    return Forecast(*moments, found.chance, past.count, past.held, off_s, straight_off_s)
