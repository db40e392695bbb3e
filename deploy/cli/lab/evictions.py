"""``bursar lab evictions``: recorded history under another policy of evictions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deploy.cli.culling import selecting
from deploy.cli.lab.run import (  # fmt: skip
    EXACT,
    By,
    End,
    Start,
    Svg,
    amounts,
    between,
    changed,
    draw,
    hours,
    stamp,
)
from deploy.cli.options import Cluster, CommandContext, command
from deploy.cli.rendering.answers import answer, field
from deploy.cli.rendering.tables import Column
from deploy.cli.rendering.words import moment
from deploy.runtime.ledgers import reading

if TYPE_CHECKING:
    from reactors.lab.evictions import Change, Group

_GROUPS = ("group", "name", "recorded", "tried", "preempted", "added", "removed", "moved", *EXACT)
_PODS = (
    "change", "namespace", "name", "node", "quota", "reason", "priority", "beneficiary", "team", "uid", "recorded_at",
    "tried_at",
)  # fmt: skip


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    command(app, "evictions", of_cluster=True)(evictions)


def evictions(
    asked: CommandContext,
    policy: Annotated[
        Path,
        typer.Option(
            "--policy",
            metavar="FILE",
            help="The policy to try: a settings file with a section evictions.",
        ),
    ],
    start: Start = None,
    end: End = None,
    by: Annotated[By, typer.Option("--by", help="Whose hours are added up.")] = By.NAMESPACE,
    pods: Annotated[
        bool, typer.Option("--pods", help="Each pod that is evicted otherwise, instead of sums.")
    ] = False,
    svg: Svg = None,
    cluster: Cluster = None,
) -> None:
    """Which pods another policy would have evicted so that quotas are held to, and the hours that it frees.

    The reactor that runs live decides again, by the policy in FILE, on what was recorded: budgets whose grace is over, elastic
    quotas above their share, room for workloads of higher priority. What takes the room that is freed is not counted; hours
    are an interval, and docs/lab.md has the rules.

    \b
    evictions:
      policy: {monitor_all_quotas: true, delay_evict_seconds: 300, preemption: on}

    \b
    bursar lab evictions --policy shares.yaml --from 30d
    bursar lab evictions --policy shares.yaml --pods -o csv
    bursar lab evictions --policy shares.yaml --by team --svg freed.svg
    """
    from deploy.queries.lab_evictions import proposed_evictions, tried_evictions

    wanted = proposed_evictions(policy)
    with reading(asked.place) as connection:
        first, last = between(connection, start, end)
        name = cluster or asked.place.cluster
        found = tried_evictions(selecting(connection), name, wanted, first, last, by.value)
    notes = [f"events {first + 1:,} to {last:,}"]
    if svg is not None:
        groups = [(one.name or "–", one) for one in found.groups]
        draw(svg, f"Freed by {by.value}", [*groups, ("all", found.total)])
    if pods:
        rows = [_pod(one) for one in found.changes if one.kind != "same"]
        answer(asked, rows, fields=_PODS, columns=_POD_COLUMNS, notes=notes)
        return
    notes += [
        "EVICTED: on record to under trial, shadows not counted; CHANGED: + added, - removed, ~ moved in time",
        "freed: likely, and from least to most; below 0 = used. The rules are in docs/lab.md",
    ]
    rows = [_group(one, by.value) for one in found.groups]
    rows.append(_group(found.total, "total"))
    answer(asked, rows, fields=_GROUPS, columns=_columns(by.value), notes=notes)


def _group(one: Group, group: str) -> dict[str, Any]:
    row = {name: getattr(one, name) for name in _GROUPS[1:8]}
    return {"group": group, **row, **amounts(one)}


def _pod(one: Change) -> dict[str, Any]:
    decision = one.decision
    target = decision.target
    return {
        "change": one.kind, "namespace": target.namespace, "name": target.name, "node": target.node,
        "quota": decision.quota, "reason": decision.reason, "priority": decision.numbers.get("priority"),
        "beneficiary": one.beneficiary or None, "team": one.team, "uid": decision.key,
        "recorded_at": stamp(one.recorded_us), "tried_at": stamp(one.tried_us),
    }  # fmt: skip


def _columns(by: str) -> tuple[Column, ...]:
    return (
        Column(by.upper(), lambda row: row["name"] or ("all" if row["group"] == "total" else None)),
        Column("EVICTED", lambda row: f"{row['recorded']} to {row['tried']}", is_figure=True),
        Column("CHANGED", changed, drop=2),
        Column("PREEMPTED", lambda row: row["preempted"], is_figure=True, drop=3),
        Column("GPU-HOURS FREED", lambda row: hours(row, "gpu_milli_s"), is_figure=True),
        Column("CORE-HOURS FREED", lambda row: hours(row, "cpu_milli_s"), is_figure=True, drop=1),
    )  # fmt: skip


_POD_COLUMNS = (
    field("CHANGE"),
    Column("POD", lambda row: f"{row['namespace']}/{row['name']}"),
    field("QUOTA"),
    field("REASON", drop=1),
    field("RECORDED", "recorded_at", show=moment),
    field("TRIED", "tried_at", show=moment),
    field("FOR", "beneficiary", wide=True),
    field("PRIORITY", wide=True),
    field("NODE", wide=True),
    field("TEAM", wide=True),
    field("UID", wide=True),
)
