"""``bursar report`` and ``bursar acct``: aggregates, and the rows behind them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import msgspec
import sqlalchemy as sa
import typer

from deploy.cli import times
from deploy.cli.filters import (
    AllNamespaces,
    Label,
    Model,
    Namespace,
    Node,
    Quota,
    Sort,
    Team,
    Top,
    User,
    Workload,
    near,
    require,
    sorted_by,
    wanted,
)
from deploy.cli.notes import lacking
from deploy.cli.notes.position import LedgerPosition, standing, together, unwatched
from deploy.cli.options import Cluster, CommandContext, command
from deploy.cli.rendering import Format
from deploy.cli.rendering.answers import answer, field
from deploy.cli.rendering.output import say
from deploy.cli.rendering.tables import Column
from deploy.cli.rendering.units import Unit
from deploy.cli.rendering.words import duration, memory, moment, thousandths
from deploy.cli.usage.reporting import show, summed
from deploy.hints import hint
from deploy.runtime import kept
from deploy.runtime.clusters import reading_all
from deploy.runtime.ledgers import clusters, reading
from deploy.settings.near import absent
from projections import reports
from projections.accounts import Account, accounts, of_model
from projections.pod_runs import pod_runs

By = Annotated[
    list[str] | None,
    typer.Option(
        "--by",
        metavar="GROUPS",
        help="Groups: team, user, namespace, workload, quota, model, device, class, node, cluster, day, hour, "
        "label:KEY; of training jobs: job, attempt, cause; "
        "several with commas, or --by again.",
    ),
]


def register(app: typer.Typer) -> None:
    """Add both commands to the program."""
    command(app, "report", question=True)(report)
    command(app, "acct", question=True)(acct)


def report(
    asked: CommandContext,
    by: By = None,
    start: times.From = None,
    end: times.To = None,
    as_of: times.AsOf = None,
    tz: times.Zone = "UTC",
    unit: Annotated[Unit, typer.Option("--unit", help="Unit of the amounts.")] = Unit.HOURS,
    team: Team = None,
    user: User = None,
    namespace: Namespace = None,
    is_all: AllNamespaces = False,
    workload: Workload = None,
    node: Node = None,
    model: Model = None,
    quota: Quota = None,
    label: Label = None,
    cluster: Cluster = None,
    sort: Sort = None,
    top: Top = None,
    amounts: Annotated[
        bool,
        typer.Option(
            "--amounts", help="Amounts alone, without pods and waiting: faster on long histories."
        ),
    ] = False,
) -> None:
    """Usage by team, user, node or any other groups. Exact sums.

    --top shows the largest groups by GPUs held, else by cores; the total is of all groups. Relative times, such as yesterday,
    count from the newest event (or --as-of).

    \b
    bursar report --by team --from month
    bursar report --by team,day --from 2026-11 --to 2026-12 --tz Europe/Berlin
    bursar report --by user --model A100 --from 7d --top 10
    bursar report --by device,team --from 7d
    bursar report --by team,job,attempt --from 7d
    bursar report --by label:app --unit exact -o json
    """
    zone = times.zone_of(tz)
    groups = tuple(name.strip() for part in by or () for name in part.split(","))
    try:
        groups = reports.check(groups)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--by") from None
    where = wanted(
        label, is_all, team=team, user=asked.user(user), namespace=namespace, workload=workload, node=node,
        model=model, quota=quota, cluster=cluster,
    )  # fmt: skip
    with reading_all(asked.place) as ledgers:
        ledgers = _own(ledgers, where)
        each = {name: standing(one) for name, one in ledgers.items()}
        stands = together(each)
        question = _question(stands, groups, start, end, as_of, zone, where)
        has_total = asked.output is Format.TABLE
        found = summed(ledgers, each, question, is_total_asked=has_total, amounts=amounts)
    notes = _notes(stands, question, found.whole.unknown_s, amounts) + found.unassigned
    show(asked, groups, found, notes, unit=unit, sort=sort, top=top, amounts=amounts)


def _own(ledgers: dict[str, sa.Connection], where: dict[str, str]) -> dict[str, sa.Connection]:
    """The ledgers that a caller may read: all, or for a caller limited to a namespace, its cluster's with its rows."""
    if kept.caller is None:
        return ledgers
    own = kept.caller.cluster
    if any(len(clusters(one)) > 1 for one in ledgers.values()):
        where["cluster"] = own
    return {name: one for name, one in ledgers.items() if len(ledgers) == 1 or name == own}


def _question(
    stands: LedgerPosition,
    groups: tuple[str, ...],
    start: str | None,
    end: str | None,
    as_of: str | None,
    zone: ZoneInfo,
    where: dict[str, str],
) -> reports.Question:
    as_of_s = times.second_of(as_of, zone, "--as-of", stands.observed_s)
    moment_s = stands.observed_s if as_of_s is None else as_of_s
    from_s = times.second_of(start, zone, "--from", moment_s)
    to_s = times.second_of(end, zone, "--to", moment_s)
    if from_s is not None and to_s is not None and from_s > to_s:
        raise typer.BadParameter("the period ends before it begins", param_hint="--to")
    return reports.Question(
        by=groups,
        from_s=from_s,
        to_s=to_s,
        as_of_s=moment_s,
        zone=zone,
        where=where,
        moments=stands.moments,
    )


def _notes(
    stands: LedgerPosition, question: reports.Question, unknown_s: int, amounts: bool
) -> list[str]:
    """Notes on the figures: their last event, unknown time, parked events."""
    amount = f"{duration(unknown_s)} of" if unknown_s else "no"
    unknown = "" if amounts else f" · {amount} unknown time beside the figures"
    if kept.caller is not None:
        return [f"as of {times.stamp(question.as_of_s)}{unknown}"]
    notes = [
        f"as of event {stands.events}, {times.stamp(question.as_of_s)}{lacking.as_of()}{unknown}"
        f" · {stands.parked:,} events parked"
    ]
    notes += unwatched(stands, question.as_of_s)
    if stands.parked:
        notes.append("parked events are not in the figures: " + hint("parked list"))
    return notes


def acct(
    asked: CommandContext,
    team: Team = None,
    user: User = None,
    namespace: Namespace = None,
    is_all: AllNamespaces = False,
    workload: Workload = None,
    node: Node = None,
    model: Model = None,
    quota: Quota = None,
    label: Label = None,
    cluster: Cluster = None,
    pod: Annotated[str | None, typer.Option("--pod", help="Only this pod: name or uid.")] = None,
    start: times.From = None,
    end: times.To = None,
    as_of: times.AsOf = None,
    tz: times.Zone = "UTC",
    sort: Sort = None,
    top: Top = None,
) -> None:
    """The account of each pod: one row per interval. Within an interval its charge did not change.

    \b
    bursar acct --team vision --from yesterday
    bursar acct --node a100-1 --sort held --top 20
    bursar acct --pod train-7 -o csv
    """
    zone = times.zone_of(tz)
    where = wanted(
        label, is_all, team=team, user=asked.user(user), namespace=namespace, workload=workload, node=node,
        model=model, quota=quota, cluster=cluster,
    )  # fmt: skip
    with reading(asked.place) as connection:
        _own({asked.place.cluster: connection}, where)
        stands = standing(connection)
        question = _question(stands, (), start, end, as_of, zone, where)
        runs = pod_runs.c
        names = ("namespace", "workload", "cluster")
        chosen = [runs[name] == where[name] for name in names if name in where]
        if pod is not None:
            chosen.append(sa.or_(runs.uid == pod, runs.name == pod))

        def select(query: sa.Select[Any]) -> list[tuple[Any, ...]]:
            return [tuple(row) for row in connection.execute(query)]

        found = accounts(
            select, as_of_s=question.as_of_s, where=tuple(chosen), moments=question.moments
        )
        # Reports need no supply of nodes, and its import takes time.
        from projections.inventory import node_supply

        excess = node_supply.excesses(
            select,
            {
                (one.cluster, held.node)
                for one in found
                for held in one.holdings
                if held.gpu_milli and kept.caller is None
            },
            min((held.start_s for one in found for held in one.holdings), default=0),
            question.as_of_s,
        )
        if not found and pod is not None and kept.caller is None:
            known = near(connection, pod_runs, pod)
            raise absent("pod", pod, (name for row in known for name in (row.name, row.uid)))
        is_over = partial(node_supply.is_oversubscribed, excess)
        rows = [row for account in found for row in _lines(account, question, is_over)]
        if not rows:
            require(connection, where)
    if kept.caller is not None:
        rows = [row | {"sequence": None} for row in rows]
    rows = sorted_by(rows, sort, top, lambda row, name: row[name], _LINE)
    unknown_s = sum({row["uid"]: row["unknown_s"] for row in rows}.values())
    notes = _notes(stands, question, unknown_s, False)
    columns = _COLUMNS if unknown_s else [c for c in _COLUMNS if c.title != "UNKNOWN"]
    answer(asked, rows, fields=_LINE, columns=columns, notes=notes)
    if asked.output is not Format.TABLE:
        for note in notes:
            say(note)


_COLUMNS = (
    Column("POD", lambda row: f"{row['namespace']}/{row['pod']}"),
    field("FROM", show=moment),
    field("TO", show=moment, wide=True),
    field("HELD", "held_s", show=duration),
    field("CORES", "cpu_milli", show=thousandths),
    field("MEMORY", "memory_mib", show=memory),
    field("GPUS", "gpu_milli", show=thousandths),
    field("MODEL", drop=2),
    field("TEAM", drop=1),
    field("UNKNOWN", "unknown_s", show=duration),
    field("USER", drop=5),
    field("WAITED", "waiting_s", show=duration, drop=4),
    field("NODE", drop=3),
    *(
        field(name.upper().replace("_", "-"), name, wide=True)
        for name in (
            "workload", "quota", "phase", "created", "cpu_type", "gpu_type", "memory_type", "extended",
            "devices", "device_memory", "open", "flags", "sequence", "cluster", "uid",
        )
    ),
)  # fmt: skip
_NAMED = (
    "team", "user", "quota", "cpu_type", "gpu_type", "memory_type", "node", "model", "extended",
    "devices", "device_memory",
)  # fmt: skip
#: Columns of the ledger with JSON texts.
_OBJECTS = ("extended", "devices", "device_memory")
#: The identity of an interval, in the form of filters.
_HELD = ("team", "user", "quota", "node", "model")
_LINE = (
    "namespace", "pod", "uid", "cluster", "workload", "phase", "created", "waiting_s", "from", "to",
    "held_s", "cpu_milli", "memory_mib", "gpu_milli", "extended", "devices", "device_memory", "team", "user", "quota",
    "cpu_type", "gpu_type", "memory_type",
    "node", "model", "open", "unknown_s", "flags", "sequence",
)  # fmt: skip


def _lines(
    account: Account,
    question: reports.Question,
    is_oversubscribed: Callable[[str, str, int, int], bool],
) -> list[dict[str, Any]]:
    """The rows of one account: one for each held interval in the period; one without amounts if it never held.

    An interval with cards of an oversubscribed node has the flag ``oversubscribed``.
    """
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
    labels = {
        k.removeprefix("label:"): v for k, v in question.where.items() if k.startswith("label:")
    }
    if any(account.labels.get(key) != value for key, value in labels.items()):
        return []
    held_where = {k: v for k, v in question.where.items() if k in _HELD}
    if not account.holdings:
        last_s = account.created_s + account.waiting_s + account.unknown_s
        is_in = from_s <= last_s and account.created_s <= question.until_s
        nothing = dict.fromkeys(_LINE) | whole | {"held_s": 0, "sequence": account.sequence}
        return [nothing] if is_in and not held_where else []
    rows = []
    for held in account.holdings:
        lo, hi = max(held.start_s, from_s), min(held.end_s, question.until_s)
        if held.devices and "model" in held_where:
            held = of_model(held, held_where["model"])
        if lo >= hi or any(getattr(held, name) != value for name, value in held_where.items()):
            continue
        named = {n: getattr(held, n) or None for n in _NAMED}
        named |= {n: msgspec.json.decode(text) for n in _OBJECTS if (text := named[n])}
        amounts = {
            n: getattr(held, n) for n in ("cpu_milli", "memory_mib", "gpu_milli", "sequence")
        }
        times_ = {"from": times.stamp(lo), "to": times.stamp(hi), "held_s": hi - lo}
        flags = [*account.flags]
        if held.gpu_milli and is_oversubscribed(account.cluster, held.node, lo, hi):
            flags.append("oversubscribed")
        more = {"flags": " ".join(sorted(flags))}
        rows.append(dict.fromkeys(_LINE) | whole | named | amounts | times_ | more)
    return rows
