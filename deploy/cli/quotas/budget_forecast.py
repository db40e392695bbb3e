"""``bursar budget forecast``: the days of budgets' exhaustion, with intervals, and the errors of past forecasts."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import sqlalchemy as sa
import typer

from deploy.cli import times
from deploy.cli.filters import require
from deploy.cli.notes.position import footer, standing
from deploy.cli.options import Cluster, CommandContext, command
from deploy.cli.quotas.reading import hours_text
from deploy.cli.rendering.answers import answer, field
from deploy.cli.rendering.layout import Cell
from deploy.cli.rendering.tables import Column, Row
from deploy.cli.rendering.words import duration, moment
from deploy.runtime.ledgers import reading
from projections.budgets.forecasts import Forecast, forecast_budget
from projections.budgets.outlook import AHEAD_DAYS, LEAST_DAYS
from projections.budgets.queries import Select
from projections.evidence import moments_s

_BUDGETS = (
    "SELECT cluster, quota, key, remaining, start_at, end_s, end_at, exhausts_at FROM v1_budget"
    " WHERE is_granted = 1 ORDER BY quota, key, cluster"
)
_FIELDS = (
    "quota", "key", "remaining", "end_at", "exhausts_at", "earliest_at", "likely_at", "latest_at", "chance", "tried", "held",
    "off_s", "straight_off_s", "cluster",
)  # fmt: skip


def register(app: typer.Typer) -> None:
    """Add the command to ``budget``."""
    command(app, "forecast", question=True)(forecast)


def forecast(
    asked: CommandContext,
    quota: Annotated[
        str | None, typer.Argument(metavar="[QUOTA]", help="Only the budgets of this quota.")
    ] = None,
    cluster: Cluster = None,
) -> None:
    """When will each budget be used up? Computed from the changes between past days, not from the running workloads.

    The forecast draws 300 futures from the last four weeks. LIKELY: half of them have spent the budget by then. EARLIEST: one
    in ten has. LATEST: nine in ten have. CHANCE: the part of all futures that spend it before the period ends. OFF: the median
    error of such forecasts for past weeks. It needs a week of spending.

    \b
    bursar budget forecast
    bursar budget forecast research -o json
    """
    with reading(asked.place) as connection:
        stands = standing(connection)
        rows = [
            dict(row._mapping)
            for row in connection.execute(sa.text(_BUDGETS))
            if quota in (None, row.quota) and cluster in (None, row.cluster)
        ]
        if quota is not None and not rows:
            require(connection, {"quota": quota})
        select: Select = partial(_select, connection)
        now = moments_s(select)
        for row in rows:
            row |= _forecast(select, row, now.get(row["cluster"], 0))
    notes = [
        f"a forecast needs {LEAST_DAYS} days of spending",
        *footer(stands.sequence, stands.observed_s),
    ]
    answer(asked, rows, fields=_FIELDS, columns=_COLUMNS, notes=notes)


def _select(connection: sa.Connection, query: sa.Select[Any]) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in connection.execute(query)]


def _forecast(select: Select, row: dict[str, Any], now_s: int) -> dict[str, Any]:
    found = forecast_budget(
        select, row["cluster"], row["quota"], row["key"],
        left=row["remaining"], end_s=row["end_s"], now_s=now_s,
    )  # fmt: skip
    return fields_of(found)


def fields_of(found: Forecast | None) -> dict[str, Any]:
    """A forecast's fields."""
    return {
        "earliest_at": times.stamp(found.earliest_s) if found else None,
        "likely_at": times.stamp(found.likely_s) if found else None,
        "latest_at": times.stamp(found.latest_s) if found else None,
        "chance": found.chance if found else None,
        "tried": found.tried if found else 0,
        "held": found.held if found else 0,
        "off_s": found.off_s if found else None,
        "straight_off_s": found.straight_off_s if found else None,
    }


def when(name: str) -> Column:
    """A column of a forecast's moments."""

    def cell(row: Row) -> Cell | None:
        if row.get("remaining", 1) <= 0 and name == "likely_at":
            return Cell("used up", "words")
        if row[name] is None and row["chance"] is not None:
            bound = "before the end" if row["end_at"] else f"in {AHEAD_DAYS} days"
            return Cell(f"not {bound}", "words")
        found = moment(row[name])
        # The hour of an interval's end has no meaning.
        return found if name == "likely_at" or found is None else Cell(row[name][:10], "words")

    return Column(name.removesuffix("_at").upper(), cell)


_COLUMNS = (
    field("QUOTA"),
    field("KEY"),
    Column("LEFT", lambda row: Cell(hours_text(row["key"], row["remaining"]), "figure"), drop=1),
    when("likely_at"),
    when("earliest_at"),
    when("latest_at"),
    Column(
        "CHANCE",
        lambda row: (
            None if row["chance"] is None else Cell(f"{row['chance'] / 10:.0f} %", "figure")
        ),
    ),
    Column("OFF", lambda row: duration(row["off_s"]), drop=2),
    field("AT-THIS-RATE", "exhausts_at", show=moment, wide=True),
    Column("STRAIGHT-OFF", lambda row: duration(row["straight_off_s"]), wide=True),
    Column("HELD", lambda row: Cell(f"{row['held']} of {row['tried']}", "figure"), wide=True),
    field("ENDS", "end_at", show=moment, wide=True),
    field("CLUSTER", wide=True),
)
