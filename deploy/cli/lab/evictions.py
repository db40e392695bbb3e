"""``bursar lab evictions``: recorded history under another policy of evictions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deploy.cli.lab.comparisons import (
    EXACT,
    By,
    End,
    Start,
    Svg,
    changed,
    compared_rows,
    decision_row,
    draw,
    group_columns,
    recorded,
)
from deploy.cli.options import Cluster, CommandContext, command
from deploy.cli.rendering.answers import answer, field
from deploy.cli.rendering.tables import Column
from deploy.cli.rendering.words import moment

if TYPE_CHECKING:
    from reactors.lab.evictions import EvictionChange

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
    """Another eviction policy on recorded history: pods, hours.

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
    with recorded(asked, cluster, start, end) as (select, name, first, last):
        found = tried_evictions(select, name, wanted, first, last, by.value)
    notes = [f"events {first + 1:,} to {last:,}"]
    draw(svg, f"Freed by {by.value}", [found])
    if pods:
        rows = [_pod(one) for one in found.changes if one.kind != "same"]
        answer(asked, rows, fields=_PODS, columns=_POD_COLUMNS, notes=notes)
        return
    notes += [
        "EVICTED: on record to under trial, shadows not counted; CHANGED: + added, - removed, ~ moved in time",
        "freed: likely, and from least to most; below 0 = used. The rules are in docs/lab.md",
    ]
    rows = compared_rows([found], [], by.value, _GROUPS)
    columns = group_columns(
        by.value, "EVICTED", Column("CHANGED", changed, drop=2),
        Column("PREEMPTED", lambda row: row["preempted"], is_figure=True, drop=3), less="FREED",
    )  # fmt: skip
    answer(asked, rows, fields=_GROUPS, columns=columns, notes=notes)


def _pod(one: EvictionChange) -> dict[str, Any]:
    decision = one.decision
    return decision_row(
        one, _PODS, quota=decision.quota, priority=decision.numbers.get("priority"),
        beneficiary=one.beneficiary or None, uid=decision.key,
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
