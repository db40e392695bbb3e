"""``bursar lab quotas``: recorded answers to reviews under other limits."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bus.clock import SECOND_US, format_stamp
from deploy.cli.lab.comparisons import (
    EXACT,
    End,
    Start,
    Svg,
    compared_rows,
    draw,
    group_columns,
    recorded,
)
from deploy.cli.options import Cluster, CommandContext, command
from deploy.cli.rendering.answers import answer, field
from deploy.cli.rendering.layout import Cell
from deploy.cli.rendering.tables import Column, Row
from deploy.cli.rendering.words import duration, moment

if TYPE_CHECKING:
    from reactors.lab.quotas import Changed, QuotaGroup

KINDS = ("let_in", "refused", "waited", "sooner")
_QUOTAS = ("group", "name", "recorded", "tried", *KINDS, "waited_s", *EXACT)
_WORKLOADS = ("change", "at", "waited_s", "quota", "kind", "namespace", "name", "uid")


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    command(app, "quotas", of_cluster=True)(quotas)


def quotas(
    asked: CommandContext,
    limits: Annotated[
        Path,
        typer.Option(
            "--limits", metavar="FILE", help="What to try, quota by quota, under `quotas:`."
        ),
    ],
    start: Start = None,
    end: End = None,
    workloads: Annotated[
        bool, typer.Option("--workloads", help="Each workload that is answered otherwise.")
    ] = False,
    svg: Svg = None,
    cluster: Cluster = None,
) -> None:
    """Other limits or queues on recorded history: starts, waits.

    Each review on record is answered again by the rules that answer live, on the tree as it would be, and queues are worked
    off again. FILE names what differs, as the objects of quotas have it:

    \b
    quotas:
      vision:
        limits.cpu: "96"
        cash/limits.nvidia.com/gpu: 5000
        parent: research
        queue: {order: Strict}
      speech: {min: {cpu: "20"}, max: {cpu: "80"}}

    Hours are those of what quotas hold, and an interval; docs/lab.md has the rules.

    \b
    bursar lab quotas --limits more.yaml --from 30d
    bursar lab quotas --limits less.yaml --workloads -o csv
    bursar lab quotas --limits more.yaml --svg more.svg
    """
    from deploy.queries.lab_quotas import proposed_limits, tried_limits

    wanted = proposed_limits(limits)
    with recorded(asked, cluster, start, end) as (select, name, first, last):
        found = tried_limits(select, name, wanted, first, last)
    notes = [f"events {first + 1:,} to {last:,}; quotas that the file does not name are as on record"]  # fmt: skip
    draw(svg, "Saved by quota", [found])
    if workloads:
        rows = [_workload(one) for one in found.changes]
        answer(asked, rows, fields=_WORKLOADS, columns=_WORKLOAD_COLUMNS, notes=notes)
        return
    notes.append("LET IN, REFUSED, LATER, SOONER: otherwise than on record; saved: below 0 = spent")
    rows = compared_rows([found], [], "quota", _QUOTAS, _more)
    answer(asked, rows, fields=_QUOTAS, columns=_QUOTA_COLUMNS, notes=notes)


def _more(one: QuotaGroup, whole: object) -> dict[str, Any]:
    kinds = {kind: one.kinds.get(kind, 0) for kind in KINDS}
    return {"waited_s": one.waited_us // SECOND_US, **kinds}


def _workload(one: Changed) -> dict[str, Any]:
    quota, kind, namespace, name = one.workload
    return {
        "change": one.kind, "at": format_stamp(one.at_us), "waited_s": one.waited_us // SECOND_US,
        "quota": quota, "kind": kind, "namespace": namespace, "name": name, "uid": one.uid,
    }  # fmt: skip


def _waited(row: Row) -> Cell:
    return Cell(f"{row['waited_s'] / 3600:,.1f}", "figure")


_QUOTA_COLUMNS = group_columns(
    "quota",
    "ADMITTED",
    field("LET IN"),
    field("REFUSED"),
    Column("LATER", lambda row: row["waited"], is_figure=True),
    field("SOONER"),
    Column("WAITED HOURS", _waited, is_figure=True, drop=2),
    less="SAVED",
)
_WORKLOAD_COLUMNS = (
    field("CHANGE"),
    field("AT", show=moment),
    field("WAITED", "waited_s", show=duration),
    Column("WORKLOAD", lambda row: f"{row['kind']} {row['namespace']}/{row['name']}"),
    field("QUOTA", drop=1),
    field("UID", wide=True),
)
