"""``bursar lab quotas``: recorded answers to reviews under other limits."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bus.clock import SECOND_US, format_stamp
from deploy.cli.culling import selecting
from deploy.cli.lab.run import EXACT, End, Start, Svg, amounts, between, draw, hours
from deploy.cli.options import Cluster, CommandContext, command
from deploy.cli.rendering.answers import answer, field
from deploy.cli.rendering.layout import Cell
from deploy.cli.rendering.tables import Column, Row
from deploy.cli.rendering.words import duration, moment
from deploy.runtime.ledgers import reading

if TYPE_CHECKING:
    from reactors.lab.quotas import Changed, QuotaOutcome

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
    """Who would have been let in, refused, or have waited, had quotas had other limits, budgets, places or queues.

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
    with reading(asked.place) as connection:
        first, last = between(connection, start, end)
        name = cluster or asked.place.cluster
        found = tried_limits(selecting(connection), name, wanted, first, last)
    notes = [f"events {first + 1:,} to {last:,}; quotas that the file does not name are as on record"]  # fmt: skip
    if svg is not None:
        draw(svg, "Saved by quota", [(one.name or "all", one) for one in found])
    if workloads:
        rows = [_workload(one) for one in found[-1].changed]
        answer(asked, rows, fields=_WORKLOADS, columns=_WORKLOAD_COLUMNS, notes=notes)
        return
    notes.append("LET IN, REFUSED, LATER, SOONER: otherwise than on record; saved: below 0 = spent")
    rows = [_quota(one) for one in found]
    answer(asked, rows, fields=_QUOTAS, columns=_QUOTA_COLUMNS, notes=notes)


def _quota(one: QuotaOutcome) -> dict[str, Any]:
    return {
        "group": "quota" if one.name else "total", "name": one.name, "recorded": one.recorded,
        "tried": one.tried, **{kind: one.count(kind) for kind in KINDS},
        "waited_s": one.waited_us // SECOND_US, **amounts(one),
    }  # fmt: skip


def _workload(one: Changed) -> dict[str, Any]:
    quota, kind, namespace, name = one.workload
    return {
        "change": one.kind, "at": format_stamp(one.at_us), "waited_s": one.waited_us // SECOND_US,
        "quota": quota, "kind": kind, "namespace": namespace, "name": name, "uid": one.uid,
    }  # fmt: skip


def _waited(row: Row) -> Cell:
    return Cell(f"{row['waited_s'] / 3600:,.1f}", "figure")


_QUOTA_COLUMNS = (
    Column("QUOTA", lambda row: row["name"] or "all"),
    Column("ADMITTED", lambda row: f"{row['recorded']} to {row['tried']}", is_figure=True),
    field("LET IN"),
    field("REFUSED"),
    Column("LATER", lambda row: row["waited"], is_figure=True),
    field("SOONER"),
    Column("WAITED HOURS", _waited, is_figure=True, drop=2),
    Column("GPU-HOURS SAVED", lambda row: hours(row, "gpu_milli_s"), is_figure=True),
    Column("CORE-HOURS SAVED", lambda row: hours(row, "cpu_milli_s"), is_figure=True, drop=1),
)
_WORKLOAD_COLUMNS = (
    field("CHANGE"),
    field("AT", show=moment),
    field("WAITED", "waited_s", show=duration),
    Column("WORKLOAD", lambda row: f"{row['kind']} {row['namespace']}/{row['name']}"),
    field("QUOTA", drop=1),
    field("UID", wide=True),
)
