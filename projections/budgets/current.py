"""Which budgets are there now, and which of their periods holds the ledger's moment?

One row for each quota and key of its cash: the budget, and the period that holds its cluster's moment, the newest
observation (:mod:`projections.evidence`). Periods are those of a time zone, which SQL cannot reckon alike on both
databases, so they turn here, with the observation that reaches their end. Rows follow from the set of events: the newest
word of each quota, and the latest moment.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import sqlalchemy as sa

from bus.clock import floor_seconds
from bus.envelope import Event
from projections import quotas
from projections.budgets.keys import account_of
from projections.budgets.periods import Period, Schedule
from projections.engine.contract import Integer, row_table
from projections.evidence import moments
from projections.quotas import Quota

VERSION = 2

budgets = row_table(
    "budgets",
    sa.Column("uid", sa.Text, primary_key=True),
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("cluster", sa.Text, nullable=False),
    sa.Column("quota", sa.Text, nullable=False),
    # What it is paid from; NULL where the ledger does not measure it.
    sa.Column("account", sa.Text),
    sa.Column("hard", Integer, nullable=False),
    sa.Column("start_s", Integer, nullable=False),
    sa.Column("end_s", Integer),
    sa.Column("is_granted", sa.Integer, nullable=False),
)


class CurrentBudgets:
    """The budgets of all quotas at the ledger's moment. ``touched``: uids that a batch changed, with the last event."""

    def __init__(self) -> None:
        self.touched: dict[str, int] = {}
        self._quotas: dict[str, Quota] = {}
        self._periods: dict[str, Period] = {}
        self._turns: dict[str, list[tuple[int, str]]] = defaultdict(list)
        self._moments_us: dict[str, int] = defaultdict(int)

    def open(self, select: Callable[[sa.Select[Any]], list[tuple[Any, ...]]]) -> None:
        """Take in the quotas and the moments that are stored."""
        self._moments_us.update(moments(select))
        for row in select(sa.select(quotas.quotas)):
            self._declare(quotas.from_columns(row))

    def observe(self, event: Event) -> None:
        """Begin the periods that the moment of ``event``, an observation, is in, where none of its cluster was later."""
        if event.time_us <= self._moments_us[event.cluster]:
            return
        self._moments_us[event.cluster] = event.time_us
        second, turns = floor_seconds(event.time_us), self._turns[event.cluster]
        while turns and turns[0][0] <= second:
            end_s, uid = heapq.heappop(turns)
            period = self._periods.get(uid)
            if period is not None and period.end_s == end_s:
                self._begin(self._quotas[uid])
                self.touched[uid] = event.sequence

    def declare(self, quota: Quota, sequence: int) -> None:
        """A quota says something new. Raises, with nothing changed, where its periods cannot be reckoned: park it."""
        before = self._quotas.get(quota.uid)
        self._declare(quota)
        if quota.uid in self._quotas or before is not None:
            self.touched[quota.uid] = sequence

    def rows(self) -> list[tuple[Any, ...]]:
        """The rows of all that was touched."""
        found = []
        for uid, sequence in sorted(self.touched.items()):
            quota, period = self._quotas.get(uid), self._periods.get(uid)
            if quota is None or quota.said is None or period is None:
                continue
            found += [
                (
                    uid, key, quota.cluster, quota.name, account_of(key), hard, period.start_s,
                    period.end_s, int(period.is_granted), sequence,
                )
                for key, hard in sorted(quota.said.cash.items())
            ]  # fmt: skip
        return found

    def _declare(self, quota: Quota) -> None:
        if quota.said is not None and quota.said.cash:
            self._begin(quota)
        else:
            self._quotas.pop(quota.uid, None)
            self._periods.pop(quota.uid, None)

    def _begin(self, quota: Quota) -> None:
        assert quota.said is not None
        period = Schedule.of(quota.said.budget).period_at(
            floor_seconds(self._moments_us[quota.cluster])
        )
        self._quotas[quota.uid], self._periods[quota.uid] = quota, period
        if period.end_s is not None:
            heapq.heappush(self._turns[quota.cluster], (period.end_s, quota.uid))
