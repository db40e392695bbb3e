"""The current budgets, each with the period around the ledger's moment.

One row for each quota and key of its cash: the budget, and the period around its cluster's moment, the newest
observation (:mod:`projections.evidence`). Periods are those of a time zone, impossible to compute in SQL alike on
both databases. So they turn here, with the observation at their end. Rows are computed from the set of events: the
newest observation of each quota, and the latest moment.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Sequence

import sqlalchemy as sa

from bus.clock import floor_seconds
from bus.envelope import Event
from bus.events.vocabulary import Fact
from projections import evidence, quotas
from projections.budgets.keys import account_of
from projections.budgets.periods import Period, Schedule
from projections.engine.changes import Changes
from projections.engine.contract import Integer, row_table
from projections.engine.model import Derivation, Restate
from projections.engine.rows import Rows
from projections.evidence import MOVING, moments
from projections.quotas import QuotaHistory

budgets = row_table(
    "budgets",
    sa.Column("uid", sa.Text, primary_key=True),
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("cluster", sa.Text, nullable=False),
    sa.Column("quota", sa.Text, nullable=False),
    # Its account; NULL for a resource outside of the ledger.
    sa.Column("account", sa.Text),
    sa.Column("hard", Integer, nullable=False),
    sa.Column("start_s", Integer, nullable=False),
    sa.Column("end_s", Integer),
    sa.Column("is_granted", sa.Integer, nullable=False),
)


class CurrentBudgets:
    """The budgets of all quotas at the ledger's moment: see :class:`projections.engine.model.Derived`."""

    def __init__(self, rows: Rows, _: Restate) -> None:
        self._select = rows.reader.select
        self._touched: dict[str, int] = {}
        self._quotas: dict[str, QuotaHistory] = {}
        self._periods: dict[str, Period] = {}
        self._turns: dict[str, list[tuple[int, str]]] = defaultdict(list)
        self._moments_us: dict[str, int] = defaultdict(int)

    def open(self) -> None:
        """Load the stored quotas and moments."""
        self._moments_us.update(moments(self._select))
        for row in self._select(sa.select(quotas.quotas)):
            self._declare(quotas.codec.row(row))

    def begin(self, facts: Sequence[tuple[Event, Fact]]) -> None:
        """All needed rows are in memory."""

    def apply(self, event: Event, fact: Fact) -> None:
        """Begin the periods around the moment of ``event``, unless an observation of its cluster was later."""
        if event.time_us <= self._moments_us[event.cluster]:
            return
        self._moments_us[event.cluster] = event.time_us
        second, turns = floor_seconds(event.time_us), self._turns[event.cluster]
        while turns and turns[0][0] <= second:
            end_s, uid = heapq.heappop(turns)
            period = self._periods.get(uid)
            if period is not None and period.end_s == end_s:
                self._begin(self._quotas[uid])
                self._touched[uid] = event.sequence

    def check(self, row: QuotaHistory) -> None:
        """Raise where the periods of a quota cannot be reckoned."""
        self._period(row)

    def follow(self, before: QuotaHistory | None, after: QuotaHistory, sequence: int) -> None:
        """A quota says something new."""
        was_known = after.uid in self._quotas
        self._declare(after)
        if was_known or after.uid in self._quotas:
            self._touched[after.uid] = sequence

    def changes(self) -> Changes:
        """The rows of all touched quotas, written anew."""
        found = []
        touched, self._touched = self._touched, {}
        for uid, sequence in sorted(touched.items()):
            quota, period = self._quotas.get(uid), self._periods.get(uid)
            if quota is None or quota.observed is None or period is None:
                continue
            found += [
                (
                    uid, key, quota.cluster, quota.name, account_of(key), hard, period.start_s,
                    period.end_s, int(period.is_granted), sequence,
                )
                for key, hard in sorted(quota.observed.cash.items())
            ]  # fmt: skip
        return Changes([(budgets, "uid", sorted(touched))], {budgets: found} if found else {})

    def settle(self) -> None:
        """All rows in memory are in use."""

    def _declare(self, quota: QuotaHistory) -> None:
        if self._period(quota) is not None:
            self._begin(quota)
        else:
            self._quotas.pop(quota.uid, None)
            self._periods.pop(quota.uid, None)

    def _begin(self, quota: QuotaHistory) -> None:
        period = self._period(quota)
        assert period is not None
        self._quotas[quota.uid], self._periods[quota.uid] = quota, period
        if period.end_s is not None:
            heapq.heappush(self._turns[quota.cluster], (period.end_s, quota.uid))

    def _period(self, quota: QuotaHistory) -> Period | None:
        """The period around the moment; None for a quota without a budget."""
        if quota.observed is None or not quota.observed.cash:
            return None
        moment_s = floor_seconds(self._moments_us[quota.cluster])
        return Schedule.of(quota.observed.budget).period_at(moment_s)


derivation = Derivation(
    name="budgets",
    version=2,
    tables=(budgets,),
    facts=MOVING,
    follows=(quotas.projection,),
    reads=(evidence.projection,),
    begin=CurrentBudgets,
)
