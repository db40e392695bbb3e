"""``bursar budget``: the rest of each budget, and entries beside them."""

from __future__ import annotations

import getpass
import uuid
from typing import Annotated, Any

import sqlalchemy as sa
import typer

from bus.clock import SECOND_US, format_stamp
from bus.errors import QuantityError
from bus.events.budgets import MOST, BudgetCredited
from bus.kube.crds.keys import CASH, key_amount
from deploy.cli import times
from deploy.cli.filters import require
from deploy.cli.notes.position import footer, standing
from deploy.cli.options import Cluster, CommandContext, command
from deploy.cli.quotas.reading import exhausted, hours_column, hours_text
from deploy.cli.rendering.answers import answer, field
from deploy.cli.rendering.layout import Cell
from deploy.cli.rendering.output import say, warn_of_names, write
from deploy.cli.rendering.tables import Column, Row
from deploy.cli.rendering.words import moment
from deploy.runtime.clusters import is_hub
from deploy.runtime.ledgers import reading
from projections.budgets.entries import budget_entries
from projections.budgets.forecasts import forecast_budget
from projections.evidence import moments_s

_BUDGETS = (
    "SELECT cluster, quota, key, start_at, end_at, hard, credits, spent, committed, remaining,"
    " exhausts_at, is_granted, start_s, end_s FROM v1_budget ORDER BY quota, key, cluster"
)
_FIELDS = (
    "quota", "key", "start_at", "end_at", "hard", "credits", "spent", "committed", "remaining",
    "exhausts_at", "is_granted", "cluster", "earliest_at", "likely_at", "latest_at", "chance",
)  # fmt: skip
_ENTRY_FIELDS = ("time", "quota", "key", "hours", "amount", "reason", "author", "period", "ref", "sequence", "cluster")  # fmt: skip

#: Most budgets with a forecast in the list: each takes a hundredth of a second.
MOST_FORECAST = 50

Hours = Annotated[
    str, typer.Argument(metavar="HOURS", help="More budget; below 0 takes some away.")
]
Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; it is kept.")]
Author = Annotated[
    str | None, typer.Option("--author", metavar="NAME", help="Who says so; by default you.")
]
Period = Annotated[
    str | None,
    typer.Option("--period", metavar="TIME", help="A moment of the period; by default now."),
]
Ref = Annotated[
    str | None,
    typer.Option("--ref", metavar="ID", help="The entry's identity: twice the same is one."),
]


def register(app: typer.Typer) -> None:
    """Add the commands of ``budget``."""
    command(app, "list", question=True)(list_)
    # A refund is negative: its sign must not be taken for an option.
    command(app, "credit", context_settings={"ignore_unknown_options": True})(credit)


def list_(
    asked: CommandContext,
    quota: Annotated[
        str | None, typer.Argument(metavar="[QUOTA]", help="Only those of this quota.")
    ] = None,
    entries: Annotated[
        bool, typer.Option("--entries", help="The credits and refunds, instead of the sums.")
    ] = False,
    cluster: Cluster = None,
) -> None:
    """Budgets in hours: credits, spent and left. LEFT = BUDGET + CREDITS - SPENT.

    COMMITTED is what running workloads with a deadline may still spend. EXHAUSTS-AT assumes that all running workloads
    continue. LIKELY is a forecast from past days; `bursar budget forecast` has its interval. Other formats have exact
    unit-seconds. At a hub each budget is the sum of its shares, and FIRST-OUT names the share that is used up first; see
    `bursar budget shares`.

    \b
    bursar budget list
    bursar budget list research --entries
    """
    if is_hub(asked.place):
        if entries:
            raise typer.BadParameter(
                "of one cluster of a hub: --cluster NAME", param_hint="--entries"
            )
        from deploy.cli.quotas.shares import list_spanning

        list_spanning(asked, quota)
        return
    with reading(asked.place) as connection:
        stands = standing(connection)
        if entries:
            rows = _entries(connection, quota, cluster)
        else:
            rows = _budgets(connection, quota, cluster)
        if quota is not None and not rows:
            require(connection, {"quota": quota})
    if entries:
        answer(asked, rows, fields=_ENTRY_FIELDS, columns=_ENTRY_COLUMNS)
    else:
        notes = footer(stands.sequence, stands.observed_s)
        if len(rows) > MOST_FORECAST:
            notes.append(
                f"of {len(rows)} budgets no LIKELY is shown here: bursar budget forecast QUOTA"
            )
        answer(asked, rows, fields=_FIELDS, columns=_COLUMNS, notes=notes)


def _budgets(
    connection: sa.Connection, quota: str | None, cluster: str | None
) -> list[dict[str, Any]]:
    rows = [dict(row._mapping) for row in connection.execute(sa.text(_BUDGETS))]
    found = [
        row for row in rows if quota in (None, row["quota"]) and cluster in (None, row["cluster"])
    ]
    for row in found:
        if row["remaining"] <= 0:
            row["exhausts_at"] = times.stamp(_exhausted_s(connection, row))
    _forecast(connection, found)
    return [{name: row.get(name) for name in _FIELDS} for row in found]


def _forecast(connection: sa.Connection, rows: list[dict[str, Any]]) -> None:
    """When each will be used up, where there are not too many. How far such forecasts were off `budget forecast` says."""

    def select(query: sa.Select[Any]) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in connection.execute(query)]

    now = moments_s(select)
    for row in rows if len(rows) <= MOST_FORECAST else ():
        found = None
        if row["is_granted"]:
            found = forecast_budget(
                select, row["cluster"], row["quota"], row["key"], left=row["remaining"],
                end_s=row["end_s"], now_s=now.get(row["cluster"], 0), is_tested=False,
            )  # fmt: skip
        if found is not None:
            row |= {
                "earliest_at": times.stamp(found.earliest_s), "likely_at": times.stamp(found.likely_s),
                "latest_at": times.stamp(found.latest_s), "chance": found.chance,
            }  # fmt: skip


def _exhausted_s(connection: sa.Connection, row: dict[str, Any]) -> int | None:
    limit = row["spent"] + row["remaining"]
    period = (row["start_s"], row["end_s"], bool(row["is_granted"]))
    return exhausted(connection, row["cluster"], row["quota"], row["key"], period, limit)


def _ends(row: Row) -> Cell | None:
    if row["is_granted"]:
        return moment(row["end_at"])
    return Cell(f"none before {row['end_at'] or 'ever'}", "words")


def _likely(row: Row) -> Cell | None:
    """The likely day, and the interval: it is used up before its first day in one of ten futures, before its last in nine."""
    if row["chance"] is None:
        return None
    days = [row[f"{name}_at"] for name in ("likely", "earliest", "latest")]
    likely, earliest, latest = (day[:10] if day else "never" for day in days)
    return Cell(f"{likely} ({earliest} to {latest})", "words")


_COLUMNS = (
    field("QUOTA"),
    field("KEY"),
    Column("ENDS", _ends, drop=1),
    hours_column("BUDGET", "hard"),
    hours_column("CREDITS", "credits", drop=2),
    hours_column("SPENT", "spent"),
    hours_column("COMMITTED", "committed", drop=3),
    hours_column("LEFT", "remaining"),
    field("EXHAUSTS-AT", show=moment),
    Column("LIKELY", _likely, drop=2),
    field("BEGAN", "start_at", show=moment, wide=True),
    field("CLUSTER", wide=True),
)
_ENTRY_COLUMNS = (
    field("TIME", show=moment),
    field("QUOTA"),
    field("KEY"),
    Column("HOURS", lambda row: Cell(row["hours"], "figure")),
    Column("REASON", lambda row: Cell(row["reason"], "words")),
    field("AUTHOR", drop=1),
    field("PERIOD", show=moment, wide=True),
    field("REF", wide=True),
    field("SEQUENCE", wide=True),
    field("CLUSTER", wide=True),
)


def _entries(
    connection: sa.Connection, quota: str | None, cluster: str | None
) -> list[dict[str, Any]]:
    columns = budget_entries.c
    rows = connection.execute(sa.select(budget_entries).order_by(columns.time_us, columns.ref))
    return [
        _entry(row, row.time_us, row.sequence, row.cluster)
        for row in rows
        if quota in (None, row.quota) and cluster in (None, row.cluster)
    ]


def _entry(row: Any, time_us: int, sequence: int, cluster: str) -> dict[str, Any]:
    """An entry of a row of the ledger, or of the fact itself."""
    return {
        "time": format_stamp(time_us), "quota": row.quota, "key": row.key,
        "hours": hours_text(row.key, row.amount), "amount": row.amount, "reason": row.reason,
        "author": row.author, "period": format_stamp(row.since_us), "ref": row.ref,
        "sequence": sequence, "cluster": cluster,
    }  # fmt: skip


def credit(
    asked: CommandContext,
    quota: Annotated[str, typer.Argument(metavar="QUOTA", help="The quota's name.")],
    key: Annotated[str, typer.Argument(metavar="KEY", help="Of its budget, such as limits.cpu.")],
    hours: Hours,
    reason: Reason,
    author: Author = None,
    period: Period = None,
    tz: times.Zone = "UTC",
    ref: Ref = None,
    cluster: Cluster = None,
) -> None:
    """Credit a quota's budget for one period, or take hours back. The credit is an entry beside the budget, never an edit.

    The history records the entry with its reason and author. It counts at once.

    \b
    bursar budget credit research limits.cpu 250 --reason "conference deadline"
    bursar budget credit research limits.nvidia.com/gpu -8.5 --reason "refund of the node failure" --period 2026-11-01
    """
    from deploy.cli.rendering.bars import fill_bar
    from deploy.commands.credit_budget import credit as credited
    from deploy.runtime.bootstrap import run

    key = key.removeprefix(CASH)
    amount = _amount(key, hours)
    if not reason.strip():
        raise typer.BadParameter("say why", param_hint="--reason")
    warn_of_names(reason, asked.settings.labels.user_key)
    since_s = times.second_of(period or "now", times.zone_of(tz), "--period")
    assert since_s is not None
    found = _known(asked, quota, key, cluster)
    entry = BudgetCredited(
        ref=ref or uuid.uuid4().hex, quota=quota, key=key, amount=amount, reason=reason,
        author=asked.settings.labels.author(author or getpass.getuser()), since_us=since_s * SECOND_US,
    )  # fmt: skip
    credited_entry = _entry_of(asked, found, entry) if ref else None
    if credited_entry is None:
        with fill_bar() as filling:
            event = run(credited(asked.settings, found, entry, filling))
        # Its row may be in a part that another process still fills.
        stored = _entry_of(asked, found, entry)
        credited_entry = stored or _entry(entry, event.time_us, event.sequence, found)
    write([credited_entry], asked.output, title="Credited", one=True)


def _entry_of(asked: CommandContext, cluster: str, entry: BudgetCredited) -> dict[str, Any] | None:
    """The entry of this ``ref`` in the ledger; None for none. Raises typer.BadParameter where it says something else."""
    with reading(asked.place) as connection:
        rows = _entries(connection, None, cluster)
    for row in rows:
        if row["ref"] == entry.ref:
            if (row["quota"], row["key"], row["amount"]) != (entry.quota, entry.key, entry.amount):
                raise typer.BadParameter("this entry says something else", param_hint="--ref")
            return row
    return None


def _amount(key: str, hours: str) -> int:
    sign = -1 if hours.startswith("-") else 1
    try:
        amount, is_rounded = key_amount(CASH + key, hours.removeprefix("-"))
    except QuantityError as error:
        raise typer.BadParameter(
            f"{hours[:32]!r} are no hours: {error.reason}", param_hint="HOURS"
        ) from None
    if not 0 < amount <= MOST:
        raise typer.BadParameter("between one unit-second and 2^60 of them", param_hint="HOURS")
    if is_rounded:
        say("rounded up to a whole unit-second")
    return sign * amount


def _known(asked: CommandContext, quota: str, key: str, cluster: str | None) -> str:
    """The cluster whose quota has this budget. Raises typer.BadParameter: an entry beside no budget would be lost."""
    with reading(asked.place) as connection:
        rows = _budgets(connection, None, cluster)
    mine = [row for row in rows if row["quota"] == quota]
    found = [row["cluster"] for row in mine if row["key"] == key]
    if not mine:
        raise typer.BadParameter(f"no quota {quota[:64]!r} has a budget", param_hint="QUOTA")
    if not found:
        keys = ", ".join(row["key"] for row in mine)
        raise typer.BadParameter(f"its budgets are {keys}", param_hint="KEY")
    if len(found) > 1:
        raise typer.BadParameter(f"in the clusters {', '.join(found)}", param_hint="--cluster")
    return str(found[0])
