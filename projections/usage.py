"""Usage by hour and by day (UTC), for each team, user, namespace, workload and GPU model.

Sums of the ended held segments, cut at hour and day boundaries: exact integers, one row for each team × user ×
namespace × workload × GPU model and period. When a late fact changes a pod's segments, its old share is taken out
and its new share put in, so the sums always equal the segments. Open segments are valued at the time of the
question (views ``v1_usage_by_*``, reports).

Source: docs/accounting.md; aggregating at write time makes reports fast (tests/benchmarks/README.md).
"""

from __future__ import annotations

from collections.abc import Iterator

import sqlalchemy as sa

from projections.devices.entries import of_segment
from projections.engine.contract import Integer, row_table
from projections.engine.model import Sum
from projections.engine.sums import Group
from projections.pod_runs import PodRun, Segment
from projections.timelines import DAY, HOUR

#: Sums of a group, in column order.
SUMS = ("cpu_milli_s", "memory_mib_s", "gpu_milli_s", "held_s", "pods")
_CPU, _MEMORY, _GPU, _SECONDS, _ = range(len(SUMS))


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
    """(period start, seconds of it) for each period of ``width_s`` in [start_s, end_s)."""
    if start_s >= end_s:
        return
    period = start_s - start_s % width_s
    while period < end_s:
        following = period + width_s
        yield period, min(end_s, following) - max(start_s, period)
        period = following


def shares(row: PodRun, width_s: int) -> dict[Group, list[int]]:
    """The share of one pod's ended segments in each group: the sums of :data:`SUMS`, the pod counted once a group.

    A group is period start, cluster, team, user, namespace, workload, model ("" = none).
    """
    found: dict[Group, list[int]] = {}
    pod, workload = row.pod, row.run.workload
    for segment in row.run.segments:
        if segment.end_s is None:
            continue
        for period, seconds in pieces(segment.start_s, segment.end_s, width_s):
            whose = (period, pod.cluster, segment.team, segment.user, pod.namespace, workload)
            _add(found, (*whose, segment.model or ""), segment, seconds)
    return found


def hourly(row: PodRun) -> dict[Group, list[int]]:
    """The shares of a pod in hours."""
    return shares(row, HOUR)


def daily(row: PodRun) -> dict[Group, list[int]]:
    """The shares of a pod in days."""
    return shares(row, DAY)


def _add(found: dict[Group, list[int]], group: Group, segment: Segment, seconds: int) -> None:
    """Add a segment. One with several models adds its cards to each model, all else to the first one's group."""
    if not segment.devices:
        _add_to(found, group, segment, segment.gpu_milli, seconds)
        return
    first, *others = of_segment(segment.model, segment.gpu_milli, segment.devices, "")
    _add_to(found, (*group[:-1], first.model or ""), segment, first.gpu_milli, seconds)
    for one in others:
        amounts = found.setdefault((*group[:-1], one.model or ""), [0, 0, 0, 0, 1])
        amounts[_GPU] += one.gpu_milli * seconds


def _add_to(
    found: dict[Group, list[int]], group: Group, segment: Segment, gpu_milli: int, seconds: int
) -> None:
    amounts = found.get(group)
    if amounts is None:
        amounts = found[group] = [0, 0, 0, 0, 1]
    amounts[_CPU] += segment.cpu_milli * seconds
    amounts[_MEMORY] += segment.memory_mib * seconds
    amounts[_GPU] += gpu_milli * seconds
    amounts[_SECONDS] += seconds


sums = Sum(
    name="usage",
    version=2,
    of="pod_runs",
    tables=((usage_hours, hourly), (usage_days, daily)),
)
