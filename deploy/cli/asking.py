"""``bursar report`` and ``bursar acct``: aggregates, and the rows behind them."""

from __future__ import annotations

from typing import Annotated, Any
from zoneinfo import ZoneInfo

import msgspec
import sqlalchemy as sa
import typer

from bus.clock import floor_seconds
from deploy.cli import times, unassigned
from deploy.cli.options import Asked, Format, command
from deploy.cli.output import say, write
from deploy.cli.report_table import print_report
from deploy.cli.units import Unit, record
from deploy.ledgers import reading
from projections import reports
from projections.accounts import Account, accounts
from projections.engine.tables import checkpoints, parked
from projections.pod_runs import pod_runs

By = Annotated[
    list[str] | None,
    typer.Option(
        "--by",
        metavar="GROUPS",
        help="Groups: team, user, namespace, workload, quota, model, node, cluster, day, hour, label:KEY; "
        "several with commas, or --by again.",
    ),
]
Team = Annotated[str | None, typer.Option("--team", help="Only this team.")]
User = Annotated[str | None, typer.Option("--user", help="Only this user.")]
Namespace = Annotated[str | None, typer.Option("--namespace", "-n", help="Only this namespace.")]
Quota = Annotated[str | None, typer.Option("--quota", help="Only what counts in this quota.")]


class Standing(msgspec.Struct, frozen=True):
    """How far the ledger is: its last event, the newest observation, and what is parked."""

    sequence: int
    observed_s: int
    parked: int


def standing(connection: sa.Connection) -> Standing:
    """Where the ledger stands in the transaction of ``connection``; zeros for an empty one."""
    row = connection.execute(sa.select(checkpoints)).first()
    count = connection.scalar(sa.select(sa.func.count()).select_from(parked)) or 0
    return Standing(row.sequence if row else 0, floor_seconds(row.observed_us) if row else 0, count)


def register(app: typer.Typer) -> None:
    """Add both commands to the program."""
    command(app, "report")(report)
    command(app, "acct")(acct)


def report(
    asked: Asked,
    by: By = None,
    start: times.From = None,
    end: times.To = None,
    as_of: times.AsOf = None,
    tz: times.Zone = "UTC",
    unit: Annotated[Unit, typer.Option("--unit", help="Unit of the amounts.")] = Unit.HOURS,
    team: Team = None,
    user: User = None,
    namespace: Namespace = None,
    quota: Quota = None,
    amounts: Annotated[
        bool,
        typer.Option(
            "--amounts", help="Amounts alone, without pods and waiting: faster on long histories."
        ),
    ] = False,
) -> None:
    """Who used how much: exact sums of what pods held, by any groups.

    \b
    bursar report --by team
    bursar report --by team,day --from 2026-11-01 --to 2026-12-01 --tz Europe/Berlin
    bursar report --by label:app --unit exact -o json
    """
    zone = times.zone_of(tz)
    groups = tuple(name.strip() for part in by or () for name in part.split(","))
    try:
        groups = reports.check(groups)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--by") from None
    where = {"team": team, "user": user, "namespace": namespace, "quota": quota}
    with reading(asked.settings) as connection:
        stands = standing(connection)
        question = _question(stands, groups, start, end, as_of, zone, where)
        answer = reports.sums if amounts else reports.report
        rows = answer(connection, question)
        if asked.output is Format.TABLE and len(rows) > 1:
            total: reports.Row | None = answer(
                connection, msgspec.structs.replace(question, by=())
            )[0]
        else:
            total = None
        nobody = unassigned.note(connection, question)
    names = [name.strip() for name in groups]
    notes = _notes(stands, question, sum(row.sums.unknown_s for row in rows), amounts) + nobody
    if asked.output is Format.TABLE:
        print_report(names, rows, total, unit, notes, amounts=amounts)
        return
    whole = reports.Sums()
    for row in rows:
        for name in ("cpu_milli_s", "gpu_milli_s", "memory_mib_s"):
            setattr(whole, name, getattr(whole, name) + getattr(row.sums, name))
    found = [
        dict(zip(names, row.key, strict=True)) | record(row.sums, unit, whole, amounts=amounts)
        for row in rows
    ]
    columns = [*names, *record(whole, unit, whole, amounts=amounts)]
    write(found, asked.output, columns=columns)
    for note in notes:
        say(note)


def _question(
    stands: Standing,
    groups: tuple[str, ...],
    start: str | None,
    end: str | None,
    as_of: str | None,
    zone: ZoneInfo,
    where: dict[str, str | None],
) -> reports.Question:
    from_s = times.second_of(start, zone, "--from")
    to_s = times.second_of(end, zone, "--to")
    if from_s is not None and to_s is not None and from_s > to_s:
        raise typer.BadParameter("the period ends before it begins", param_hint="--to")
    as_of_s = times.second_of(as_of, zone, "--as-of")
    return reports.Question(
        by=groups,
        from_s=from_s,
        to_s=to_s,
        as_of_s=stands.observed_s if as_of_s is None else as_of_s,
        zone=zone,
        where={name: value for name, value in where.items() if value is not None},
    )


def _notes(
    stands: Standing, question: reports.Question, unknown_s: int, amounts: bool
) -> list[str]:
    """What stands beside the figures: as of which event, unknown time, parked events."""
    unknown = "" if amounts else f" · {unknown_s:,} s of unknown time beside the figures"
    notes = [
        f"as of event {stands.sequence:,}, {times.stamp(question.as_of_s)}{unknown}"
        f" · {stands.parked:,} events parked"
    ]
    if stands.parked:
        notes.append("parked events are not in the figures: bursar parked list")
    return notes


def acct(
    asked: Asked,
    team: Team = None,
    user: User = None,
    namespace: Namespace = None,
    pod: Annotated[str | None, typer.Option("--pod", help="Only this pod: name or uid.")] = None,
    start: times.From = None,
    end: times.To = None,
    as_of: times.AsOf = None,
    tz: times.Zone = "UTC",
) -> None:
    """What is on each pod's account: one row for each interval in which its charge did not change.

    \b
    bursar acct --team vision --from 2026-11-21
    bursar acct --pod train-7 -o csv
    """
    zone = times.zone_of(tz)
    with reading(asked.settings) as connection:
        stands = standing(connection)
        question = _question(stands, (), start, end, as_of, zone, {})
        runs = pod_runs.c
        where: list[sa.ColumnElement[bool]] = []
        if namespace is not None:
            where.append(runs.namespace == namespace)
        if pod is not None:
            where.append(sa.or_(runs.uid == pod, runs.name == pod))

        def select(query: sa.Select[Any]) -> list[tuple[Any, ...]]:
            return [tuple(row) for row in connection.execute(query)]

        found = accounts(select, as_of_s=question.as_of_s, where=tuple(where))
    rows = [row for account in found for row in _lines(account, question, team, user)]
    columns = list(_LINE)
    if asked.output is Format.TABLE:
        columns = [c for c in columns if c not in _LONG]
    unknown_s = sum({row["uid"]: row["unknown_s"] for row in rows}.values())
    notes = _notes(stands, question, unknown_s, False)
    write(
        [{name: row[name] for name in columns} for row in rows],
        asked.output, columns=columns, footer=notes,
    )  # fmt: skip
    if asked.output is not Format.TABLE:
        for note in notes:
            say(note)


#: Columns that a table leaves out.
_LONG = (
    "uid", "cluster", "phase", "created", "extended", "cpu_type", "gpu_type",
    "memory_type", "open", "sequence",
)  # fmt: skip
_NAMED = (
    "team", "user", "quota", "cpu_type", "gpu_type", "memory_type", "node", "model", "extended",
)  # fmt: skip
_LINE = (
    "namespace", "pod", "uid", "cluster", "workload", "phase", "created", "waiting_s", "from", "to",
    "held_s", "cpu_milli", "memory_mib", "gpu_milli", "extended", "team", "user", "quota",
    "cpu_type", "gpu_type", "memory_type",
    "node", "model", "open", "unknown_s", "flags", "sequence",
)  # fmt: skip


def _lines(
    account: Account, question: reports.Question, team: str | None, user: str | None
) -> list[dict[str, Any]]:
    """The rows of one account: one for each held interval in the period; one without amounts where it never held."""
    whole = {
        "namespace": account.namespace,
        "pod": account.name,
        "uid": account.uid,
        "cluster": account.cluster,
        "workload": account.workload,
        "phase": account.phase,
        "created": times.stamp(account.created_s),
        "waiting_s": account.waiting_s,
        "open": account.is_open,
        "unknown_s": account.unknown_s,
        "flags": " ".join(account.flags),
    }
    from_s = account.created_s if question.from_s is None else question.from_s
    if not account.holdings:
        last_s = account.created_s + account.waiting_s + account.unknown_s
        is_in = from_s <= last_s and account.created_s <= question.until_s
        nothing = dict.fromkeys(_LINE) | whole | {"held_s": 0, "sequence": account.sequence}
        return [nothing] if is_in and team is None and user is None else []
    rows = []
    for held in account.holdings:
        lo, hi = max(held.start_s, from_s), min(held.end_s, question.until_s)
        if lo >= hi or team not in (None, held.team) or user not in (None, held.user):
            continue
        named = {n: getattr(held, n) or None for n in _NAMED}
        amounts = {
            n: getattr(held, n) for n in ("cpu_milli", "memory_mib", "gpu_milli", "sequence")
        }
        times_ = {"from": times.stamp(lo), "to": times.stamp(hi), "held_s": hi - lo}
        rows.append(dict.fromkeys(_LINE) | whole | named | amounts | times_)
    return rows
