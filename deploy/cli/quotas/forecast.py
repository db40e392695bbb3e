"""``bursar quota forecast``: the times of reached limits at the current use, and past errors."""

from __future__ import annotations

from typing import Annotated, Any

import sqlalchemy as sa
import typer

from deploy.cli.filters import require
from deploy.cli.notes.position import footer, standing
from deploy.cli.options import Cluster, CommandContext, command
from deploy.cli.quotas.budget_forecast import fields_of, when
from deploy.cli.quotas.reading import amount_text, lines
from deploy.cli.rendering.answers import answer, field
from deploy.cli.rendering.layout import Cell
from deploy.cli.rendering.tables import Column
from deploy.cli.rendering.words import duration
from deploy.runtime.ledgers import reading
from projections.budgets.forecasts import forecast_limit
from projections.budgets.keys import account_of
from projections.budgets.outlook import LEAST_DAYS
from projections.evidence import moments_s

_FIELDS = (
    "quota", "key", "limit", "earliest_at", "likely_at", "latest_at", "chance", "tried", "held", "off_s", "straight_off_s",
    "cluster",
)  # fmt: skip


def register(app: typer.Typer) -> None:
    """Add the command to ``quota``."""
    command(app, "forecast", question=True)(forecast)


def forecast(
    asked: CommandContext,
    quota: Annotated[
        str | None, typer.Argument(metavar="[QUOTA]", help="Only the limits of this quota.")
    ] = None,
    cluster: Cluster = None,
) -> None:
    """When will each quota reach its limits? Computed from the largest hours of past days and the changes between them.

    The forecast draws 300 futures from the last four weeks. LIKELY: half of them have reached the limit by then. EARLIEST: one
    in ten has. LATEST: nine in ten have. CHANCE: the part of all futures that reach it within 92 days. OFF: the median error of
    such forecasts for past weeks. Claims of child quotas are left out. It needs a week of use.

    \b
    bursar quota forecast
    bursar quota forecast research -o json
    """
    with reading(asked.place) as connection:
        stands = standing(connection)

        def select(query: sa.Select[Any]) -> list[tuple[Any, ...]]:
            return [tuple(row) for row in connection.execute(query)]

        if quota is not None:
            require(connection, {"quota": quota})
        now = moments_s(select)
        rows: list[dict[str, Any]] = []
        for line in lines(connection, cluster):
            for key, usage in line.usage.items() if quota in (None, line.name) else ():
                if usage.hard is None or account_of(key) is None:
                    continue
                found = forecast_limit(
                    select, line.cluster, line.name, key,
                    limit=usage.hard, now_s=now.get(line.cluster, 0),
                )  # fmt: skip
                row = {"quota": line.name, "key": key, "limit": usage.hard, "end_at": None}
                rows.append(row | fields_of(found) | {"cluster": line.cluster})
    notes = [
        f"a forecast needs {LEAST_DAYS} days of use",
        *footer(stands.sequence, stands.observed_s),
    ]
    answer(asked, rows, fields=_FIELDS, columns=_COLUMNS, notes=notes)


_COLUMNS = (
    field("QUOTA"),
    field("KEY"),
    Column(
        "LIMIT", lambda row: Cell(amount_text(row["key"], row["limit"]) or "", "figure"), drop=1
    ),
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
    Column("STRAIGHT-OFF", lambda row: duration(row["straight_off_s"]), wide=True),
    Column("HELD", lambda row: Cell(f"{row['held']} of {row['tried']}", "figure"), wide=True),
    field("CLUSTER", wide=True),
)
