"""``bursar lab quotas``: recorded answers to reviews under other limits."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bus.clock import SECOND_US, format_stamp
from deploy.cli.culling import Cluster, selecting
from deploy.cli.lab import EXACT, End, Start, amounts, between, hours
from deploy.cli.options import CommandContext, command
from deploy.cli.rendering.answers import answer, field
from deploy.cli.rendering.tables import Column
from deploy.cli.rendering.words import duration, moment
from deploy.runtime.ledgers import reading

if TYPE_CHECKING:
    from reactors.lab.quotas import Changed, QuotaOutcome

_QUOTAS = ("group", "name", "recorded", "tried", "let_in", "refused", "waited", *EXACT)
_WORKLOADS = ("change", "at", "waited_s", "quota", "kind", "namespace", "name", "uid")


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    command(app, "quotas")(quotas)


def quotas(
    asked: CommandContext,
    limits: Annotated[
        Path,
        typer.Option(
            "--limits", metavar="FILE", help="The limits to try, quota by quota, under `quotas:`."
        ),
    ],
    start: Start = None,
    end: End = None,
    workloads: Annotated[
        bool, typer.Option("--workloads", help="Each workload that is answered otherwise.")
    ] = False,
    cluster: Cluster = None,
) -> None:
    """Who would have been let in, refused, or have waited, had quotas had other limits.

    Each review on record is answered again by the rules that answer live, on the tree as it would be. FILE names what differs:

    \b
    quotas:
      vision: {limits.cpu: "96", limits.nvidia.com/gpu: 8}

    Hours are those of what quotas hold, and an interval; docs/lab.md has the rules.

    \b
    bursar lab quotas --limits more.yaml --from 30d
    bursar lab quotas --limits less.yaml --workloads -o csv
    """
    from deploy.queries.lab_quotas import proposed_limits, tried_limits

    wanted = proposed_limits(limits)
    with reading(asked.place) as connection:
        first, last = between(connection, start, end)
        name = cluster or asked.place.cluster
        found = tried_limits(selecting(connection), name, wanted, first, last)
    notes = [f"events {first + 1:,} to {last:,}; budgets, elastic quotas and queues are as on record"]  # fmt: skip
    if workloads:
        rows = [_workload(one) for one in found[-1].changed]
        answer(asked, rows, fields=_WORKLOADS, columns=_WORKLOAD_COLUMNS, notes=notes)
        return
    notes.append("LET IN, REFUSED, WAITED: otherwise than on record; hours saved, below 0 = held")
    rows = [_quota(one) for one in found]
    answer(asked, rows, fields=_QUOTAS, columns=_QUOTA_COLUMNS, notes=notes)


def _quota(one: QuotaOutcome) -> dict[str, Any]:
    return {
        "group": "quota" if one.name else "total", "name": one.name, "recorded": one.recorded,
        "tried": one.tried, **{kind: one.count(kind) for kind in ("let_in", "refused", "waited")},
        **amounts(one),
    }  # fmt: skip


def _workload(one: Changed) -> dict[str, Any]:
    quota, kind, namespace, name = one.workload
    return {
        "change": one.kind, "at": format_stamp(one.at_us), "waited_s": one.waited_us // SECOND_US,
        "quota": quota, "kind": kind, "namespace": namespace, "name": name, "uid": one.uid,
    }  # fmt: skip


_QUOTA_COLUMNS = (
    Column("QUOTA", lambda row: row["name"] or "all"),
    Column("ADMITTED", lambda row: f"{row['recorded']} to {row['tried']}", is_figure=True),
    field("LET IN"),
    field("REFUSED"),
    field("WAITED"),
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
