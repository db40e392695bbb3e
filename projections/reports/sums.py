"""Adds the pieces of all pods up by group; or uses stored sums with the same answer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import msgspec
import sqlalchemy as sa

from projections.reports import days
from projections.reports.by_day import ByDay
from projections.reports.periods import periods
from projections.reports.pieces import HELD, HeldPiece, add, pieces, stretches
from projections.reports.shape import UTC, Key, Question, ReportRow, Sums, check
from projections.timelines import DAY, HOUR
from projections.usage import usage_days, usage_hours

#: Dimensions of the hourly and daily sums, and their column.
_KEPT = {
    "cluster": "cluster",
    "team": "team",
    "user": "user_name",
    "namespace": "namespace",
    "workload": "workload",
    "model": "model",
}


def report(connection: sa.Connection, question: Question) -> list[ReportRow]:
    """One row for each group with a pod in the period, by key; without groups one row.

    Exact; the module has the rules. Whole days come from the stored sums of ended pods, if these have the
    dimensions; all else from pods. Raises ValueError for an unknown dimension.
    """
    check(question.by)
    totals = _empty(question)
    middle = days.middle(connection, question)
    if middle is None:
        _add_pods(totals, pieces(connection, question, uids=days.within(connection, question)))
        return _rows(totals)
    days.add(connection, question, middle, totals)
    going, ended, kept = days.beside(connection, question, middle)
    # The stored share of ended ones is in the first part already.
    parts = ((question, [*going, *ended], 1), (middle.question, kept, -1))
    if "day" not in question.by:
        for asked, uids, sign in parts:
            _add_pods(totals, pieces(connection, asked, uids=uids), sign)
    else:
        by_day = ByDay(question.by.index("day"))
        whole = tuple(name for name in question.by if name != "day")
        for asked, uids, sign in parts:
            asked = msgspec.structs.replace(asked, by=whole)
            for pod in stretches(connection, asked, uids):
                by_day.add(pod, sign)
        by_day.into(totals)
    return _rows({key: found for key, found in totals.items() if found.pods or not question.by})


def sums(connection: sa.Connection, question: Question) -> list[ReportRow]:
    """Amounts and held seconds by group, equal to :func:`report`'s; the rest is 0, groups without holdings are
    missing.

    If the sums of reports lack a dimension, whole past days and hours come from those of usage; only open segments,
    and the rest of an hour at the end of the period, are read one by one. If those lack it too, all segments are
    read.
    """
    by = check(question.by)
    totals = _empty(question)
    if days.middle(connection, question) is not None:
        for row in report(connection, question):
            one = row.sums
            kept = (one.cpu_milli_s, one.gpu_milli_s, one.memory_mib_s, one.held_s)
            totals[row.key] = Sums(0, 0, *kept)
        return _held(totals, by)
    width_s = _width(question)
    rest = question
    if width_s:
        hour_s = question.until_s - question.until_s % HOUR
        if question.from_s is None or hour_s > question.from_s:
            # Days, and the hours of the last one.
            middle_s = question.until_s - question.until_s % width_s
            first = middle_s if question.from_s is None else max(middle_s, question.from_s)
            _add_kept(connection, question, None, middle_s, width_s, totals)
            _add_kept(connection, question, first, hour_s, HOUR, totals)
            past = msgspec.structs.replace(question, to_s=hour_s)
            _add_segments(connection, past, totals, only_open=True)
            rest = msgspec.structs.replace(question, from_s=hour_s)
    _add_segments(connection, rest, totals)
    return _held(totals, by)


def _held(totals: dict[Key, Sums], by: tuple[str, ...]) -> list[ReportRow]:
    return _rows(
        {key: found for key, found in totals.items() if found.held_s or found.gpu_milli_s or not by}
    )


def _add_pods(
    totals: dict[Key, Sums], pods: Iterable[list[tuple[Key, int, int, HeldPiece]]], sign: int = 1
) -> None:
    for pod in pods:
        counted: dict[Key, bool] = {}
        for key, kind, seconds, holding in pod:
            add(totals[key], kind, sign * seconds, holding)
            counted[key] = counted.get(key, False) or kind == HELD
        for key, has_held in counted.items():
            totals[key].pods += sign
            totals[key].held_pods += sign * has_held


def _empty(question: Question) -> dict[Key, Sums]:
    totals: dict[Key, Sums] = defaultdict(Sums)
    if not question.by:
        totals[()] = Sums()
    return totals


def _rows(totals: dict[Key, Sums]) -> list[ReportRow]:
    def order(key: Key) -> Key:
        # Empty values come last; days and hours by their time, not by their name.
        return tuple((value is None, "" if value is None else value) for value in key)

    return [
        ReportRow(tuple(v[1] if isinstance(v, tuple) else v for v in key), totals[key])
        for key in sorted(totals, key=order)
    ]


# from the stored sums


def _width(question: Question) -> int:
    """Seconds of the periods with stored sums for the question; 0 without."""
    cuts = {"day", "hour"} & set(question.by)
    names = {*question.by, *question.where} - cuts
    is_kept = names <= _KEPT.keys() and (not cuts or question.zone.key == UTC.key)
    for width_s in (HOUR,) if "hour" in cuts else (DAY, HOUR):
        if is_kept and (question.from_s or 0) % width_s == 0:
            return width_s
    return 0


def _add_kept(
    connection: sa.Connection,
    question: Question,
    from_s: int | None,
    until_s: int,
    width_s: int,
    totals: dict[Key, Sums],
) -> None:
    """Add the ended segments' share of whole periods before ``until_s``, of the question's from ``from_s`` on."""
    table = usage_hours if width_s == HOUR else usage_days
    columns = table.c
    period = columns.hour_s if width_s == HOUR else columns.day_s
    chosen = [period if name in ("day", "hour") else columns[_KEPT[name]] for name in question.by]
    query = (
        sa.select(
            *chosen,
            *(sa.func.sum(columns[n]) for n in ("cpu_milli_s", "memory_mib_s", "gpu_milli_s", "held_s")),
        )
        .where(period < until_s, *(period >= one for one in (question.from_s, from_s) if one is not None))
        .where(*(columns[_KEPT[name]] == value for name, value in question.where.items()))
        .group_by(*chosen)
    )  # fmt: skip
    day, hour = periods("day", UTC), periods("hour", UTC)
    for row in connection.execute(query):
        if row[-1] is None:
            continue
        key = tuple(
            next((day if name == "day" else hour)(value, value))[0]
            if name in ("day", "hour")
            else value or None
            for name, value in zip(question.by, row, strict=False)
        )
        found = totals[key]
        found.cpu_milli_s += int(row[-4])
        found.memory_mib_s += int(row[-3])
        found.gpu_milli_s += int(row[-2])
        found.held_s += int(row[-1])


def _add_segments(
    connection: sa.Connection,
    question: Question,
    totals: dict[Key, Sums],
    *,
    only_open: bool = False,
) -> None:
    uids = days.open_pods(connection, question) if only_open else days.within(connection, question)
    for pod in pieces(connection, question, only_open=only_open, uids=uids):
        for key, kind, seconds, holding in pod:
            if kind == HELD and seconds:
                add(totals[key], kind, seconds, holding)
