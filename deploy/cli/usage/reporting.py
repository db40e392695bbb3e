"""Sums of ``bursar report``: the query over all ledgers, and its rendering."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import sqlalchemy as sa

from deploy.cli.filters import require, sorted_by
from deploy.cli.notes import unassigned
from deploy.cli.notes.position import LedgerPosition
from deploy.cli.options import CommandContext
from deploy.cli.rendering import Format
from deploy.cli.rendering.output import say, write
from deploy.cli.rendering.report_table import print_report
from deploy.cli.rendering.units import Unit, record
from deploy.runtime.clusters import added
from projections import reports


class Summed(NamedTuple):
    """Groups with their sums, the sum of all groups, the row of all pods, and notes on unassigned usage."""

    rows: list[reports.ReportRow]
    whole: reports.Sums
    total: reports.ReportRow | None
    unassigned: list[str]


def summed(
    ledgers: Mapping[str, sa.Connection], each: Mapping[str, LedgerPosition], question: reports.Question,
    *, is_total_asked: bool, amounts: bool,
) -> Summed:  # fmt: skip
    """The sums of all ledgers. ``amounts``: without pods and waiting. Raises AbsentObjectError for an unknown filter."""
    asks = reports.sums if amounts else reports.report

    def own(name: str, question: reports.Question) -> reports.Question:
        # Clusters of one name: an open interval in one lasts until that one's last observation.
        return msgspec.structs.replace(question, moments=each[name].moments)

    rows = added(asks(one, own(name, question)) for name, one in ledgers.items())
    if not any(row.sums != reports.Sums() for row in rows):
        first, *others = ledgers.values()
        require(first, question.where, *others)
    total = None
    if is_total_asked and len(rows) > 1:
        of_all = msgspec.structs.replace(question, by=())
        total = added(asks(one, own(name, of_all)) for name, one in ledgers.items())[0]
    notes = [
        line for name, one in ledgers.items() for line in unassigned.note(one, own(name, question))
    ]
    return Summed(rows, _added(rows), total, notes)


def show(
    asked: CommandContext, names: Sequence[str], found: Summed, notes: list[str], *, unit: Unit, sort: str | None,
    top: int | None, amounts: bool,
) -> None:  # fmt: skip
    """Write the groups in the format that was asked for."""
    whole, count = found.whole, len(found.rows)

    def figures(row: reports.ReportRow) -> dict[str, Any]:
        keys = dict(zip(names, row.key, strict=True))
        return keys | record(row.sums, unit, whole, amounts=amounts)

    columns = [*names, *record(whole, unit, whole, amounts=amounts)]
    if top is not None and sort is None:
        sort = columns[columns.index("held_s") - (2 if whole.gpu_milli_s else 3)]
    rows = sorted_by(found.rows, sort, top, lambda row, name: figures(row)[name], columns)
    notes = notes + ([f"the first {len(rows):,} of {count:,} groups"] if len(rows) < count else [])
    if asked.output is Format.TABLE:
        print_report(names, rows, found.total, unit, notes, amounts=amounts, wide=asked.is_wide)
        return
    write([figures(row) for row in rows], asked.output, columns=columns)
    for note in notes:
        say(note)


def _added(rows: list[reports.ReportRow]) -> reports.Sums:
    """The sum of all groups; pods are not added, since one may be in several groups."""
    whole = reports.Sums()
    for row in rows:
        for name in ("cpu_milli_s", "gpu_milli_s", "memory_mib_s", "held_s", "unknown_s"):
            setattr(whole, name, getattr(whole, name) + getattr(row.sums, name))
    return whole
