"""The spending on the budgets of each quota, hour by hour: any period of whole hours is a sum of these rows.

One row for each cluster, quota, account (:func:`projections.budgets.keys.account`) and hour (UTC). ``spent`` is the
amount of ended segments in that hour. Open segments are in the hour of their start: ``open_amount`` is their
amount, ``open_missed`` the unit·seconds of that hour before they began. At second t they have spent ``open_amount *
(t - hour_s) - open_missed``, without a row being written as time passes.

Kept by differences, like the sums of :mod:`projections.usage`: a late fact takes a pod's old shares out and puts
its new ones in. Segments without a quota have no row.
"""

from __future__ import annotations

import sqlalchemy as sa

from projections.attribution import AMOUNTS
from projections.budgets.keys import account
from projections.engine.contract import Integer, row_table
from projections.engine.model import Sum
from projections.engine.sums import Group
from projections.pod_runs import PodRun, Segment
from projections.timelines import HOUR
from projections.usage import pieces

budget_spends = row_table(
    "budget_spends",
    sa.Column("cluster", sa.Text, primary_key=True),
    sa.Column("quota", sa.Text, primary_key=True),
    sa.Column("account", sa.Text, primary_key=True),
    sa.Column("hour_s", Integer, primary_key=True),
    sa.Column("spent", Integer, nullable=False),
    sa.Column("open_amount", Integer, nullable=False),
    sa.Column("open_missed", Integer, nullable=False),
    sa.Column("pods", Integer, nullable=False),
)


def shares(row: PodRun) -> dict[Group, list[int]]:
    """The shares of one pod's segments in each row: spent, open_amount, open_missed, and the pod once."""
    found: dict[Group, list[int]] = {}
    for segment in row.run.segments:
        if segment.quota:
            for resource, (column, type_column) in AMOUNTS.items():
                amount: int = getattr(segment, column)
                if amount:
                    name = account(resource, getattr(segment, type_column))
                    _add(found, (row.pod.cluster, segment.quota, name), segment, amount)
    return found


def _add(found: dict[Group, list[int]], whose: Group, segment: Segment, amount: int) -> None:
    if segment.end_s is None:
        missed_s = segment.start_s % HOUR
        amounts = found.setdefault((*whose, segment.start_s - missed_s), [0, 0, 0, 1])
        amounts[1] += amount
        amounts[2] += amount * missed_s
        return
    for hour_s, seconds in pieces(segment.start_s, segment.end_s, HOUR):
        found.setdefault((*whose, hour_s), [0, 0, 0, 1])[0] += amount * seconds


sums = Sum(name="budget_spends", version=2, of="pod_runs", tables=((budget_spends, shares),))
