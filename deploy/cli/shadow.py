"""``bursar agreement``: compares shadow decisions with what happened, and reports whether to switch a reactor on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import sqlalchemy as sa
import typer

from deploy.cli import times
from deploy.cli.culling import selecting
from deploy.cli.notes.position import footer, standing
from deploy.cli.options import Cluster, CommandContext, command
from deploy.cli.program.exits import Exit
from deploy.cli.rendering.answers import answer, count, field
from deploy.cli.rendering.layout import Cell
from deploy.cli.rendering.tables import Column, Row
from deploy.runtime.ledgers import clusters, reading

if TYPE_CHECKING:
    from deploy.queries.agreement import Compared

#: The compared reactors, in this order.
REACTORS = ("admission", "culling", "evictions", "jobs", "scheduling")
_RESULTS = ("agreed", "alone", "against", "open")
_AMOUNTS = ("gpu_milli_s", "cpu_milli_s")
_FIELDS = (
    "reactor", "reason", "decided", *_RESULTS, *_AMOUNTS, *(f"{name}_against" for name in _AMOUNTS), "since", "verdict", "why",
)  # fmt: skip
_DAY = 86_400
_MILLI_HOUR = 3_600_000


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    command(app, "agreement", question=True)(agreement)


def agreement(
    asked: CommandContext,
    reactor: Annotated[
        str | None,
        typer.Argument(
            metavar="[REACTOR]", help="Only this reactor; exit code 6 unless its verdict is go."
        ),
    ] = None,
    start: times.From = None,
    days: Annotated[
        int, typer.Option("--days", min=0, help="Days of shadow decisions needed for go.")
    ] = 7,
    against: Annotated[
        float,
        typer.Option("--against", min=0, max=100, help="Highest percentage of DISAGREED for go."),
    ] = 5.0,
    tz: times.Zone = "UTC",
    cluster: Cluster = None,
) -> None:
    """Go or no-go for each reactor, by its shadow decisions. They are compared with what actually happened.

    AGREED: the same happened within an hour. UNMATCHED: it did not happen, and no user would have been harmed. DISAGREED: the
    decision would have harmed a user. Examples: a notebook was used again within an hour, a pod to be evicted ran on, a pod
    runs on a refused node, a refused workload came and ran. OPEN: the outcome is not known yet. Hours are those that the pods
    held after the decision. GO: at least --days days of decisions, and at most --against percent of them in DISAGREED.

    \b
    bursar agreement
    bursar agreement culling --from 14d && echo BURSAR_CULLING__MODE=on
    """
    if reactor is not None and reactor not in REACTORS:
        raise typer.BadParameter(f"{reactor[:64]!r} is none of {', '.join(REACTORS)}")
    zone = times.zone_of(tz)
    with reading(asked.place) as connection:
        stands = standing(connection)
        since_s = times.second_of(start, zone, "--from", stands.moment_s(cluster)) or 0
        rows = _rows(connection, cluster, since_s, stands.moment_s(cluster), reactor)
    for row in rows:
        if row["reason"] is None:
            row |= _verdict(row, days, against)
    notes = [f"{row['reactor']}: {row['verdict']}: {row['why']}" for row in rows if row["verdict"]]
    notes += footer(stands.sequence, stands.observed_s)
    answer(asked, rows, fields=_FIELDS, columns=_COLUMNS, notes=notes)
    if reactor is not None and rows[-1]["verdict"] != "go":
        raise typer.Exit(Exit.DIFFERENT)


def _rows(
    connection: sa.Connection, only: str | None, since_s: int, now_s: int, reactor: str | None
) -> list[dict[str, Any]]:
    from deploy.cli.jobs.steps import steps
    from deploy.queries.agreement import compared

    select = selecting(connection)
    found: list[Compared] = []
    for name in clusters(connection):
        if only in (None, name):
            found += compared(select, name, since_s, now_s)
            # All reactors are played for them.
            if reactor in (None, "jobs"):
                found += steps(connection, name, since_s)
    rows = []
    for one in REACTORS:
        if reactor in (None, one):
            mine = [each for each in found if each.reactor == one]
            for reason in sorted({each.reason for each in mine}):
                rows.append(_row(one, reason, [each for each in mine if each.reason == reason]))
            rows.append(_row(one, None, mine))
    return rows


def _row(reactor: str, reason: str | None, found: Sequence[Compared]) -> dict[str, Any]:
    sure = [one for one in found if one.result != "open"]
    return {
        "reactor": reactor, "reason": reason, "decided": sum(one.count for one in found),
        **{name: _count(found, name) for name in _RESULTS},
        **{name: sum(getattr(one, name) for one in sure) for name in _AMOUNTS},
        **{
            f"{name}_against": sum(getattr(one, name) for one in sure if one.result == "against")
            for name in _AMOUNTS
        },
        "since": times.stamp(min((one.at_s for one in found), default=None)),
        "since_s": min((one.at_s for one in found), default=None),
        "until_s": max((one.at_s for one in found), default=None),
        "verdict": None, "why": None,
    }  # fmt: skip


def _count(found: Iterable[Compared], result: str) -> int:
    return sum(one.count for one in found if one.result == result)


def _verdict(row: dict[str, Any], days: int, against: float) -> dict[str, str]:
    known = row["decided"] - row["open"]
    if not known:
        return {
            "verdict": "no-go",
            "why": "no shadow decision with a known outcome",
        }
    lasted = (row["until_s"] - row["since_s"]) / _DAY
    share = 100 * row["against"] / known
    text = f"{row['against']:,} of {known:,} disagreed ({share:.1f} %) in {lasted:.1f} days"
    if share > against:
        return {"verdict": "no-go", "why": f"{text}; at most {against:g} % is allowed"}
    if lasted < days:
        return {"verdict": "no-go", "why": f"{text}; {days} days of decisions are needed"}
    return {"verdict": "go", "why": text}


def _hours(name: str, title: str, drop: int) -> Column:
    def cell(row: Row) -> Cell | None:
        if row["reactor"] == "jobs":
            return None
        return Cell(f"{row[name] / _MILLI_HOUR:,.1f}", "figure")

    return Column(title, cell, drop=drop)


_COLUMNS = (
    field("REACTOR"),
    Column("REASON", lambda row: row["reason"] or Cell("all", "words")),
    count("DECIDED", "decided"),
    count("AGREED", "agreed"),
    count("UNMATCHED", "alone"),
    count("DISAGREED", "against"),
    count("OPEN", "open", drop=2),
    _hours("gpu_milli_s", "GPU-HOURS", 1),
    _hours("cpu_milli_s", "CORE-HOURS", 2),
    Column("VERDICT", lambda row: row["verdict"]),
)
