"""Forecasts of all budgets and limits of a cluster, one at a time and each once an hour, beside the keeper of quotas.

Metrics and the status of quotas show the newest one, so questions never wait for a forecast. Each round makes at most one: a
tenth of a second of CPU in ten seconds. With more than 360, each is as old as a full turn takes.

Source: docs/quotas.md ("Budget forecasts").
"""

from __future__ import annotations

from collections.abc import Iterator

from bus.kube.crds.keys import CASH
from projections.budgets.forecasts import Forecast, forecast_budget, forecast_limit
from projections.budgets.keys import account_of
from projections.budgets.queries import Select
from projections.timelines import HOUR
from reactors.budgets.state import LedgerRead, Place


class Forecasts:
    """Those of one cluster. ``of``: by quota and key, budgets with ``cash/``; None = there is too little past."""

    def __init__(self, select: Select, cluster: str) -> None:
        self._select, self._cluster = select, cluster
        self.of: dict[Place, Forecast | None] = {}
        self._made_s: dict[Place, int] = {}

    def advance(self, read: LedgerRead) -> None:
        """Make the oldest forecast again, if it is older than an hour, and forget those of deleted quotas."""
        places = dict.fromkeys(_places(read))
        self.of = {place: one for place, one in self.of.items() if place in places}
        due = min(places, key=lambda place: self._made_s.get(place, 0), default=None)
        if due is None or self._made_s.get(due, 0) > read.at_s - HOUR:
            return
        self._made_s = {place: at for place, at in self._made_s.items() if place in places}
        self._made_s[due], self.of[due] = read.at_s, self._forecast(read, due)

    def _forecast(self, read: LedgerRead, place: Place) -> Forecast | None:
        quota, key = place
        if key.startswith(CASH):
            key = key.removeprefix(CASH)
            standing = read.standings[quota, key]
            return forecast_budget(
                self._select, self._cluster, quota, key,
                left=standing.left(read.at_s), end_s=standing.period.end_s, now_s=read.at_s,
            )  # fmt: skip
        observed = read.quotas[quota].observed
        assert observed is not None
        return forecast_limit(
            self._select, self._cluster, quota, key, limit=observed.hard[key], now_s=read.at_s
        )


def _places(read: LedgerRead) -> Iterator[Place]:
    for (quota, key), standing in read.standings.items():
        if standing.period.is_granted:
            yield quota, CASH + key
    # Claims of quotas below count against a limit, too, and are in no forecast.
    above = {found.observed.parent for found in read.quotas.values() if found.observed is not None}
    for quota, found in read.quotas.items():
        if quota in above:
            continue
        for key in found.observed.hard if found.observed is not None else ():
            if account_of(key) is not None:
                yield quota, key
