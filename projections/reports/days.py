"""Days of a question from the stored sums of ended pods, and the pods to read besides them.

A question takes whole days. Of the first and the last one the part outside the period is subtracted again: pods of
that one day by the quarter of an hour of their creation, all others one by one. Open pods, and pods existing at a
cut or at the question's moment, are read one by one; the same reading subtracts their share in the sums. So any
larger set read besides gives the same answer, and the smallest sufficient set is: every pod with another state in
the sums than in the period.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from projections.engine.store import LEDGER
from projections.engine.tables import checkpoints
from projections.pod_runs import blocks, is_one_day, longer, pod_runs
from projections.report_days import SLOT, SLOT_DIMENSIONS, SUMS, TABLES, is_counted, slots
from projections.report_days import sums as kept
from projections.reports.periods import periods
from projections.reports.shape import UTC, Key, Question, Sums
from projections.timelines import DAY, HOUR

#: Longest period in days with pods looked up by their blocks; of a longer one all pods are read in order.
_MOST_DAYS = 40

#: The constant part of all holdings of a pod.
_OF_ONE = frozenset({"cluster", "namespace"})

#: After everything.
_EVER_S = 2**40


class Outside(msgspec.Struct, frozen=True):
    """[from_s, to_s) of the days of a :class:`Middle`, outside of the question; ``slots`` are those wholly within."""

    from_s: int
    to_s: int
    slots: tuple[int, int]

    @property
    def cut(self) -> tuple[int, int]:
        """From the question's cut to the nearest slot: pods existing there are read."""
        return (self.from_s, self.slots[0]) if self.from_s % DAY else (self.slots[1], self.to_s)


class Middle(msgspec.Struct, frozen=True):
    """The days of a question answered by ``table``, with its ``dimensions`` numbered by their order."""

    table: sa.Table
    dimensions: Sequence[str]
    from_s: int | None
    to_s: int
    #: The same question about these days as they are known now.
    question: Question
    outside: tuple[Outside, ...]


def middle(connection: sa.Connection, question: Question) -> Middle | None:
    """The days with sums for the question; None without such days, with missing sums in the ledger, or if reading
    the pods of the period is faster.
    """
    names = {_column(name) for name in (*question.by, *question.where)} - {"day"}
    is_cut = "day" in question.by and question.zone.key != UTC.key
    found = next((one for one in TABLES if names <= set(one[0])), None)
    from_s, until_s = question.from_s, question.until_s
    if found is None or is_cut or (from_s is not None and until_s - from_s <= HOUR):
        return None
    if not _is_kept(connection):
        return None
    to_s = -(-until_s // DAY) * DAY
    outside = []
    if from_s is not None and from_s % DAY:
        begin_s = from_s - from_s % DAY
        outside.append(Outside(begin_s, from_s, (begin_s, from_s - from_s % SLOT)))
        from_s = begin_s
    if until_s < to_s:
        outside.append(Outside(until_s, to_s, (-(-until_s // SLOT) * SLOT, to_s)))
    asked = msgspec.structs.replace(question, from_s=from_s, to_s=to_s, as_of_s=_EVER_S, moments={})
    return Middle(found[1], found[0], from_s, to_s, asked, tuple(outside))


def add(
    connection: sa.Connection, question: Question, middle: Middle, totals: dict[Key, Sums]
) -> None:
    """Add the ended pods' share of the middle, without the slots outside. Rows are few: groups, days and the
    earlier groups of their pods.
    """
    _add(connection, question, middle.dimensions, _days_asked(question, middle), totals, 1)
    for part in middle.outside:
        if part.slots[0] < part.slots[1]:
            query = _slots_asked(question, part)
            _add(connection, question, SLOT_DIMENSIONS, query, totals, -1)


def _add(
    connection: sa.Connection,
    question: Question,
    dimensions: Sequence[str],
    asked: tuple[list[str], sa.Select[Any]],
    totals: dict[Key, Sums],
    sign: int,
) -> None:
    names = {_column(name) for name in (*question.by, *question.where)}
    bits = sum(1 << n for n, name in enumerate(dimensions) if name in names)
    groups, query = asked
    places = [groups.index(_column(name)) for name in question.by]
    day = periods("day", UTC)
    found: dict[tuple[Any, ...], Sums] = {}
    for row in connection.execute(query).all():
        raw = tuple([row[place] for place in places])
        sums = found.get(raw)
        if sums is None:
            key = tuple(
                next(day(value, value))[0] if name == "day" else value or None
                for name, value in zip(question.by, raw, strict=True)
            )
            sums = found[raw] = totals[key]
        seen, seen_held, days, pods, held_pods, cpu, gpu, memory, held, waiting, unknown = row[-11:]
        if not is_counted(seen, bits, days):
            sums.pods += sign * int(pods)
        if not is_counted(seen_held, bits, days):
            sums.held_pods += sign * int(held_pods)
        sums.cpu_milli_s += sign * int(cpu)
        sums.gpu_milli_s += sign * int(gpu)
        sums.memory_mib_s += sign * int(memory)
        sums.held_s += sign * int(held)
        sums.waiting_s += sign * int(waiting)
        sums.unknown_s += sign * int(unknown)


def _slots_asked(question: Question, part: Outside) -> tuple[list[str], sa.Select[Any]]:
    """As :func:`_days_asked`, of the slots outside; each of their pods is there on one day alone."""
    columns = slots.c
    groups = [name for name in ("day", *SLOT_DIMENSIONS) if name in {*map(_column, question.by)}]
    # A slot lies in one day, and so do all requested ones.
    day: sa.ColumnElement[Any] = sa.literal_column(str(part.slots[0] // DAY * DAY))
    chosen = [day if name == "day" else columns[name] for name in groups]
    grouped = [columns[name] for name in groups if name != "day"]
    summed = [sa.func.sum(columns[name]) for name in SUMS]
    query = (
        sa.select(*chosen, columns.seen, columns.seen_held, sa.literal_column("0"), *summed)
        .where(columns.slot_s >= part.slots[0], columns.slot_s < part.slots[1])
        .where(*(columns[_column(name)] == value for name, value in question.where.items()))
        .group_by(*grouped, columns.seen, columns.seen_held)
    )
    return groups, query


def _days_asked(question: Question, middle: Middle) -> tuple[list[str], sa.Select[Any]]:
    """The groups, and a query for them, ``seen``, ``seen_held``, days since the period began (of one day 0), and the sums."""
    columns, first_s = middle.table.c, middle.from_s
    # In the order of the key: most questions need no sorting.
    wanted = {*map(_column, question.by), "cluster"}
    groups = [name for name in ("day", *middle.dimensions) if name in wanted]
    chosen = [columns["day_s" if name == "day" else name] for name in groups]
    chosen_columns: list[sa.ColumnElement[Any]] = [
        columns.seen,
        columns.seen_held,
        sa.literal_column("0"),
    ]
    summed: list[sa.ColumnElement[Any]] = [*chosen, *chosen_columns[:2]]
    if "day" not in groups:
        chosen_columns[2] = columns.back if first_s is None else _age(columns, first_s)
        summed.append(chosen_columns[2])
    elif {*middle.dimensions} - _OF_ONE <= {*groups, *map(_column, question.where)}:
        # Of one day each row is a group of its own: no pod is counted before.
        chosen_columns[:2] = [sa.literal_column("''")] * 2
        summed = [*chosen]
    query = (
        sa.select(*chosen, *chosen_columns, *(sa.func.sum(columns[name]) for name in SUMS))
        .where(columns.day_s < middle.to_s)
        .where(*(columns[_column(name)] == value for name, value in question.where.items()))
        .group_by(*summed)
    )
    return groups, query if first_s is None else query.where(columns.day_s >= first_s)


def _age(columns: Any, first_s: int) -> sa.ColumnElement[Any]:
    """Days since the period began, as far as they tell something."""
    since_s = columns.day_s - first_s
    days = since_s / sa.literal_column(str(DAY))
    return sa.case((columns.back * DAY > since_s, days), else_=columns.back).label("age")


def beside(
    connection: sa.Connection, question: Question, middle: Middle
) -> tuple[list[str], list[str], list[str]]:
    """Three lists of uids: open pods, ended pods at a cut of the period, and those of them contained in the sums of
    the middle.

    :func:`add` takes them in this order.
    """
    as_of_s = question.as_of_s
    found = _there(connection, as_of_s, as_of_s)
    for part in middle.outside:
        found += _there(connection, *part.cut)
        found += _there(connection, part.from_s, part.to_s, longer(part.from_s, part.to_s))
    ended = {uid for uid, _, _ in found}
    # Pods of one day in slots outside: these sums have taken them out.
    out = {
        uid
        for uid, created_s, last_s in found
        for part in middle.outside
        if part.slots[0] <= created_s < part.slots[1] and is_one_day(created_s, last_s)
    }
    return open_pods(connection, question), sorted(ended), sorted(ended - out)


def within(connection: sa.Connection, question: Question) -> list[str] | None:
    """The pods possibly in the period, by uid; None if these may be all pods."""
    from_s, until_s = question.from_s, min(question.until_s, question.as_of_s)
    is_short = from_s is not None and until_s - from_s <= _MOST_DAYS * DAY
    if from_s is None or not is_short or not _is_kept(connection):
        return None
    going = open_pods(connection, question)
    there = _there(connection, from_s, max(from_s, until_s))
    return sorted({*going, *(uid for uid, _, _ in there)})


def open_pods(connection: sa.Connection, question: Question) -> list[str]:
    """The open pods possibly in the period, by uid."""
    runs = pod_runs.c
    is_there = [runs.created_s <= question.as_of_s]
    is_there += [] if question.to_s is None else [runs.created_s < question.to_s]
    query = sa.select(runs.uid).where(runs.end_s.is_(None), *is_there)
    return sorted(row[0] for row in connection.execute(query))


def _there(
    connection: sa.Connection, first_s: int, last_s: int, among: list[int] | None = None
) -> list[tuple[str, int, int]]:
    """The ended pods existing, or unknown, in [first_s, last_s]: uid, creation, last second; of some blocks alone."""
    runs = pod_runs.c
    last = runs.end_s + runs.unknown_s
    query = sa.select(runs.uid, runs.created_s, last).where(
        runs.block.in_(blocks(first_s, last_s) if among is None else among),
        runs.created_s <= last_s,
        last >= first_s,
    )
    return [(row[0], row[1], row[2]) for row in connection.execute(query)]


def ended_pods(connection: sa.Connection) -> int:
    """How many pods have ended, ever."""
    if not _is_kept(connection):
        query = sa.select(sa.func.count()).where(pod_runs.c.end_s.is_not(None))
        return int(connection.scalar(query) or 0)
    _, table = TABLES[0]
    # Of each pod one row is the first.
    return int(
        connection.scalar(sa.select(sa.func.sum(table.c.pods)).where(table.c.seen == "")) or 0
    )


def _is_kept(connection: sa.Connection) -> bool:
    """Whether the ledger has the sums: one of an older version is filled while it is asked."""
    version = connection.scalar(
        sa.select(checkpoints.c.version).where(checkpoints.c.name == LEDGER)
    )
    return f"{kept.name}={kept.version}" in (version or "").split(",")


def _column(name: str) -> str:
    return "user_name" if name == "user" else name
