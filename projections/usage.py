"""How much was used, by whom, in which hour and on which day (UTC)?

Sums of the held segments that have ended, cut at hour and day boundaries: exact integers, one row for each team × user ×
namespace × workload × GPU model and period. When a late fact changes a pod's segments, its old share is taken
out and its new share put in, so the sums always equal the segments. What is still open is valued when
asked (views ``v1_usage_by_*``, reports).

Source: ``accounting.md`` section 4; aggregating at write time is what makes reports fast (``performance.md`` section 7).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import sqlalchemy as sa

from projections.engine.contract import Integer, row_table
from projections.pod_runs import PodRun, Segment

HOUR = 3_600
DAY = 86_400

VERSION = 1

#: The key of a row of sums; here: period start, cluster, team, user, namespace, workload, model ("" = none)
Group = tuple[Any, ...]

#: Sums of a group, in column order.
SUMS = ("cpu_milli_s", "memory_mib_s", "gpu_milli_s", "held_s", "pods")


def _usage(name: str, period: str) -> sa.Table:
    return row_table(
        name,
        sa.Column(period, Integer, primary_key=True),
        *(
            sa.Column(dimension, sa.Text, primary_key=True)
            for dimension in ("cluster", "team", "user_name", "namespace", "workload", "model")
        ),
        *(sa.Column(amount, Integer, nullable=False) for amount in SUMS),
    )


usage_hours = _usage("usage_hours", "hour_s")
usage_days = _usage("usage_days", "day_s")


def pieces(start_s: int, end_s: int, width_s: int) -> Iterator[tuple[int, int]]:
    """(period start, seconds of it) for each period of ``width_s`` that [start_s, end_s) touches."""
    if start_s >= end_s:
        return
    period = start_s - start_s % width_s
    while period < end_s:
        following = period + width_s
        yield period, min(end_s, following) - max(start_s, period)
        period = following


def shares(row: PodRun, width_s: int) -> dict[Group, list[int]]:
    """What the ended segments of one pod add to each group: the sums of :data:`SUMS`, the pod counted once a group."""
    found: dict[Group, list[int]] = {}
    pod, workload = row.pod, row.run.workload
    for segment in row.run.segments:
        if segment.end_s is None:
            continue
        for period, seconds in pieces(segment.start_s, segment.end_s, width_s):
            group = (
                period, pod.cluster, segment.team, segment.user, pod.namespace, workload,
                segment.model or "",
            )  # fmt: skip
            sums = found.get(group)
            if sums is None:
                sums = found[group] = [0, 0, 0, 0, 1]
            _add(sums, segment, seconds)
    return found


def hourly(row: PodRun) -> dict[Group, list[int]]:
    """The shares of a pod in hours."""
    return shares(row, HOUR)


def daily(row: PodRun) -> dict[Group, list[int]]:
    """The shares of a pod in days."""
    return shares(row, DAY)


def _add(sums: list[int], segment: Segment, seconds: int) -> None:
    sums[0] += segment.cpu_milli * seconds
    sums[1] += segment.memory_mib * seconds
    sums[2] += segment.gpu_milli * seconds
    sums[3] += seconds


class Restatement:
    """Differences to the sums of one table, gathered over a batch: group → sums, and the last event that touched it.

    ``shares`` is what one pod adds to each group, in the order of the table's columns.
    """

    def __init__(self, table: sa.Table, shares: Callable[[PodRun], dict[Group, list[int]]]) -> None:
        self.table = table
        self._shares = shares
        self.differences: dict[Group, list[int]] = {}

    def restate(self, before: PodRun | None, after: PodRun) -> None:
        """Take out the shares of ``before`` and put in those of ``after``."""
        if before is not None:
            self._apply(self._shares(before), -1, after.run_sequence)
        self._apply(self._shares(after), 1, after.run_sequence)

    def _apply(self, found: dict[Group, list[int]], sign: int, sequence: int) -> None:
        for group, sums in found.items():
            known = self.differences.get(group)
            if known is None:
                known = self.differences[group] = [0] * (len(sums) + 1)
            for place, amount in enumerate(sums):
                known[place] += sign * amount
            known[-1] = sequence
