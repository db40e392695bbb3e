"""The held, waiting and unknown time of each group on each day (UTC), and the number of its pods.

Sums over the ended pods, cut at the days of UTC: the addends of ``bursar report``, so a question about a year reads
days and not pods. When a late fact changes a pod, its old share is taken out and its new share put in. Open pods
are valued at the time of the question (:mod:`projections.reports`).

**Counting pods.** A pod is counted once in a group, however many rows of the group it is in: on several days, or
because it changed its team, user, quota or model. So a row is identified by its pods' earlier groups too, in
``seen`` and, of holding alone, ``seen_held``: ``0:1 2:0`` means: in the same group one day earlier, and on the same
day in a group with another value in the dimension of bit 1. A question by some of the dimensions and from some day
skips the rows of already counted pods: those with an entry equal in all dimensions of the question and not before
its first day. Entries implied by another one are dropped, so a pod without changes has two kinds of rows: its first
day, and all others.

**Periods with a start or end within a day.** Pods of a single day are summed a second time, by the quarter of an
hour of their creation (``report_slots``): the part a question subtracts from its first and last day. Only pods
existing at the cut are read (:mod:`projections.reports.days`).

Alternatives refused: sums of hours, with a row of a pod for each; a row for each pod and day, too many to read;
estimates (HyperLogLog), inexact; a table for each of the 256 sets of dimensions.

Source: docs/accounting.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import NamedTuple

import sqlalchemy as sa

from projections.devices.entries import of_segment
from projections.engine.contract import Integer, row_table
from projections.engine.model import Sum
from projections.engine.sums import Group, Shares
from projections.pod_runs import NOBODY, PodRun, Segment, is_one_day
from projections.timelines import DAY
from projections.usage import pieces

#: The values of a :class:`_Stretch`, in order.
DIMENSIONS = (
    "cluster", "team", "user_name", "namespace", "quota", "model", "node", "workload",
)  # fmt: skip

#: Sums of a group, in column order.
SUMS = (
    "pods", "held_pods", "cpu_milli_s", "gpu_milli_s", "memory_mib_s", "held_s", "waiting_s", "unknown_s",
)  # fmt: skip

#: Seconds of a slot: pods of one day by their creation.
SLOT = 900

WAITED, HELD, UNKNOWN = range(3)

Values = tuple[str, ...]


def _table(name: str, dimensions: Sequence[str], period: str = "day_s") -> sa.Table:
    return row_table(
        name,
        sa.Column(period, Integer, primary_key=True),
        *(sa.Column(dimension, sa.Text, primary_key=True) for dimension in dimensions),
        # Where else the pods of this row were before, and how many days ago at the most.
        sa.Column("seen", sa.Text, primary_key=True),
        sa.Column("seen_held", sa.Text, primary_key=True),
        sa.Column("back", Integer, primary_key=True),
        *(sa.Column(amount, Integer, nullable=False) for amount in SUMS),
        # Rows lie in the order of days: a question reads those of its period.
        is_clustered=True,
    )


class _Stretch(NamedTuple):
    """``kind`` over [start_s, end_s), for a group of all dimensions. ``is_first`` False: a further model of an
    already counted pod.
    """

    kind: int
    start_s: int
    end_s: int
    values: Values
    cpu_milli: int = 0
    gpu_milli: int = 0
    memory_mib: int = 0
    is_first: bool = True


def _stretches(row: PodRun) -> Iterator[_Stretch]:
    """The stretches of one ended pod; a stretch of no length proves only its existence."""
    run, segments = row.run, row.run.segments
    end_s = run.end_s
    if end_s is None:
        return
    first, last = (_of_idle(row),) * 2
    if segments:
        first, last = _of(row, segments[0]), _of(row, segments[-1])
    yield _Stretch(WAITED, run.created_s, end_s if run.start_s is None else run.start_s, first)
    if run.start_s is not None and not segments:
        yield _Stretch(HELD, run.start_s, run.start_s, first)
    for segment in segments:
        yield from _held(row, segment, end_s)
    if run.unknown_s:
        yield _Stretch(UNKNOWN, end_s, end_s + run.unknown_s, last)


def _held(row: PodRun, segment: Segment, end_s: int) -> Iterator[_Stretch]:
    """A stretch for each of its models: CPU, memory and time are with the first."""
    until_s = end_s if segment.end_s is None else segment.end_s
    span, values = (HELD, segment.start_s, until_s), _of(row, segment)
    if not segment.devices:
        cpu, gpu, memory = segment.cpu_milli, segment.gpu_milli, segment.memory_mib
        yield _Stretch(*span, values, cpu, gpu, memory)
        return
    first, *others = of_segment(segment.model, segment.gpu_milli, segment.devices, "")
    whose = _of_model(values, first.model)
    yield _Stretch(*span, whose, segment.cpu_milli, first.gpu_milli, segment.memory_mib)
    for one in others:
        yield _Stretch(*span, _of_model(values, one.model), 0, one.gpu_milli, 0, is_first=False)


def _of(row: PodRun, segment: Segment) -> Values:
    return (
        row.pod.cluster, segment.team, segment.user, row.pod.namespace, segment.quota, segment.model or "",
        segment.node, row.run.workload,
    )  # fmt: skip


def _of_model(values: Values, model: str | None) -> Values:
    return (*values[:5], model or "", *values[6:])


def _of_idle(row: PodRun) -> Values:
    """The owners of an ended pod without held time."""
    idle = row.run.idle or NOBODY
    return (
        row.pod.cluster, idle.team, idle.user, row.pod.namespace, idle.quota, idle.model or "",
        idle.node or "", row.run.workload,
    )  # fmt: skip


#: Of a group and day: whether a pod held there, and the sums after the counts.
_Amounts = list[int]
#: Places of the sums, but for that of pods, which each pod of a slot has.
_HELD_PODS, _CPU, _GPU, _MEMORY, _HELD_S, _WAITING_S, _UNKNOWN_S = range(len(SUMS) - 1)
_Day = tuple[int, Values, _Amounts]


class _Cut:
    """The stretches of pods, by day and group of all dimensions: each table reads the same row, before and after a change."""

    def __init__(self) -> None:
        self._latest: list[tuple[PodRun, list[_Day]]] = []

    def __call__(self, row: PodRun) -> list[_Day]:
        """In the order of days; within one day in the order of the pod's groups."""
        for known, found in self._latest:
            if known is row:
                return found
        found = _days_of(row)
        self._latest = [*self._latest[-1:], (row, found)]
        return found


_cut = _Cut()


def _days_of(row: PodRun) -> list[_Day]:
    found: dict[tuple[int, Values], _Amounts] = {}
    for kind, start_s, end_s, values, cpu, gpu, memory, is_first in _stretches(row):
        # A stretch of no length lies in one day.
        days = pieces(start_s, end_s, DAY) if start_s < end_s else ((start_s - start_s % DAY, 0),)
        for day_s, seconds in days:
            amounts = found.get((day_s, values))
            if amounts is None:
                amounts = found[(day_s, values)] = [0] * (len(SUMS) - 1)
            if kind == HELD:
                amounts[_HELD_PODS] = 1
                amounts[_CPU] += cpu * seconds
                amounts[_GPU] += gpu * seconds
                amounts[_MEMORY] += memory * seconds
                amounts[_HELD_S] += seconds if is_first else 0
            else:
                amounts[_WAITING_S if kind == WAITED else _UNKNOWN_S] += seconds
    return sorted(((day_s, values, sums) for (day_s, values), sums in found.items()), key=_day)


def _day(item: _Day) -> int:
    return item[0]


def _by_group(
    days: list[_Day], chosen: Callable[[Values], Values]
) -> dict[tuple[int, Values], _Amounts]:
    found: dict[tuple[int, Values], _Amounts] = {}
    for day_s, values, amounts in days:
        group = (day_s, chosen(values))
        known = found.get(group)
        if known is not None:
            amounts = [a + b for a, b in zip(known, amounts, strict=True)]
            amounts[0] = min(amounts[0], 1)
        found[group] = amounts
    return found


def _seen(last: dict[Values, int], day_s: int, group: Values) -> tuple[str, int]:
    """Where a pod was before it is in ``group`` on a day, and the most days ago; ``last`` has its groups with their last days."""
    if len(last) == 1 and group in last:
        gap = (day_s - last[group]) // DAY
        return f"0:{gap}", gap
    nearest: dict[int, int] = {}
    for other, other_s in last.items():
        differs = sum(1 << n for n, (a, b) in enumerate(zip(group, other, strict=True)) if a != b)
        gap = (day_s - other_s) // DAY
        if gap < nearest.get(differs, gap + 1):
            nearest[differs] = gap
    kept = [
        (differs, gap)
        for differs, gap in sorted(nearest.items())
        if not any(
            other | differs == differs and before <= gap
            for other, before in nearest.items()
            if other != differs
        )
    ]
    return " ".join(f"{differs}:{gap}" for differs, gap in kept), max(
        (g for _, g in kept), default=0
    )


def shares(dimensions: Sequence[str]) -> Shares:
    """A pod's share in each row of a table: the sums of :data:`SUMS`. Nothing before its end."""
    chosen = itemgetter(*(DIMENSIONS.index(one) for one in dimensions))

    def of_pod(row: PodRun) -> dict[Group, list[int]]:
        if row.run.end_s is None:
            return {}
        days = _cut(row)
        if len(days) == 1:
            # Most pods: on one day, of one team, and nowhere before.
            day_s, values, amounts = days[0]
            return {(day_s, *chosen(values), "", "", 0): [1, *amounts]}
        return _of_days(days, chosen)

    return of_pod


def _of_days(days: list[_Day], chosen: Callable[[Values], Values]) -> dict[Group, list[int]]:
    found: dict[Group, list[int]] = {}
    last: dict[Values, int] = {}
    last_held: dict[Values, int] = {}
    for (day_s, group), (has_held, *amounts) in _by_group(days, chosen).items():
        seen, back = _seen(last, day_s, group)
        last[group] = day_s
        seen_held = ""
        if has_held:
            seen_held, back_held = _seen(last_held, day_s, group)
            back = max(back, back_held)
            last_held[group] = day_s
        found[(day_s, *group, seen, seen_held, back)] = [1, has_held, *amounts]
    return found


def slot_shares(dimensions: Sequence[str]) -> Shares:
    """The share of a pod of one day by the slot of its creation; nothing of a pod of several days."""
    of_day = shares(dimensions)

    def of_pod(row: PodRun) -> dict[Group, list[int]]:
        run = row.run
        if run.end_s is None or not is_one_day(run.created_s, run.end_s + run.unknown_s):
            return {}
        slot_s = run.created_s - run.created_s % SLOT
        return {(slot_s, *group[1:]): sums for group, sums in of_day(row).items()}

    return of_pod


@lru_cache(maxsize=65_536)
def is_counted(seen: str, chosen: int, days: int | None) -> bool:
    """Whether an earlier row of a question counts the pods ``seen`` there before. The question has the dimensions
    of the bits ``chosen``, and its first day is ``days`` before theirs (None: a period without a beginning).
    """
    entries = (map(int, entry.split(":")) for entry in seen.split())
    return any(not differs & chosen and (days is None or gap <= days) for differs, gap in entries)


#: Tables by their dimensions; the first one with all dimensions of a question answers it.
TABLES = tuple(
    (dimensions, _table(name, dimensions))
    for name, dimensions in (
        ("report_days_by_team", ("cluster", "team")),
        ("report_days_by_model", ("cluster", "team", "model")),
        ("report_days_by_node", ("cluster", "node", "team", "model")),
        ("report_days", ("cluster", "team", "user_name", "namespace", "quota", "model")),
    )
)

#: Pods of one day by all dimensions but the workload.
SLOT_DIMENSIONS = DIMENSIONS[:-1]
slots = _table("report_slots", SLOT_DIMENSIONS, "slot_s")

sums = Sum(
    name="report_days",
    version=2,
    of="pod_runs",
    tables=(
        *((table, shares(dimensions)) for dimensions, table in TABLES),
        (slots, slot_shares(SLOT_DIMENSIONS)),
    ),
)
