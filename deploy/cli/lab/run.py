"""``bursar lab``: recorded history under another policy of culling."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bus.clock import SECOND_US
from deploy.cli.culling import seconds_of
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
    stamp,
)
from deploy.cli.options import Cluster, CommandContext, command
from deploy.cli.rendering.answers import answer, field
from deploy.cli.rendering.tables import Column
from deploy.cli.rendering.words import moment

if TYPE_CHECKING:
    from reactors.lab.culling.outcome import CullChange

Within = Annotated[
    str, typer.Option("--within", metavar="SPAN", help="Used again so soon = a false cull.")
]

_GROUPS = (
    "group", "name", "recorded", "tried", "added", "removed", "moved", "false_culls", "within_s",
    *EXACT,
)  # fmt: skip
_CHANGES = (
    "change", "decision", "kind", "namespace", "name", "team", "uid", "reason", "recorded_at", "tried_at",
    "again_at",
)  # fmt: skip


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    command(app, "run", of_cluster=True)(run)


def run(
    asked: CommandContext,
    policy: Annotated[
        list[Path],
        typer.Option(
            "--policy",
            metavar="FILE",
            help="The policy to try: a settings file with a section culling; again to compare several.",
        ),
    ],
    start: Start = None,
    end: End = None,
    by: Annotated[By, typer.Option("--by", help="Whose hours are added up.")] = By.NAMESPACE,
    within: Within = "30m",
    decisions: Annotated[
        bool, typer.Option("--decisions", help="Each decision that differs, instead of sums.")
    ] = False,
    svg: Svg = None,
    cluster: Cluster = None,
) -> None:
    """Another culling policy on recorded history: hours saved.

    The reactor that runs live decides again, by the policy in FILE, on the looks at notebooks that are in the history. What
    nobody can know (would a stopped notebook have been used?) is filled in by three rules, so hours are an interval;
    docs/lab.md has the rules. Shadow mode on record stopped nobody: then all that the policy stops is saved.

    \b
    bursar lab --policy two-hours.yaml --from 30d
    bursar lab --policy two-hours.yaml --by team --svg saved.svg
    bursar lab --policy two-hours.yaml --decisions -o csv
    bursar lab --policy one-hour.yaml --policy two-hours.yaml
    """
    from deploy.queries.lab import Recording, proposed
    from reactors.lab.culling.outcome import outcome, unsure_us

    within_us = seconds_of(within, "--within") * SECOND_US
    if len(policy) > 1 and decisions:
        raise typer.BadParameter("--decisions is about one", param_hint="--policy")
    wanted = [proposed(path) for path in policy]
    with recorded(asked, cluster, start, end) as (select, name, first, last):
        recording = Recording(select, name, first, last)
        found = recording.tried([(one.culling, one.mode) for one in wanted])
    made = [
        outcome(one.played, by=by.value, within_us=within_us, unsure_us=unsure_us(one.policy))
        for one in found
    ]
    modes = ", ".join(found[0].modes) or "off"
    notes = [f"events {first + 1:,} to {last:,}; on record culling was {modes}"]
    title = "policy" if len(policy) > 1 else by.value
    draw(svg, f"Saved by {title}", made, policy)
    if decisions:
        rows = [_change(one) for one in made[0].changes if one.kind != "same"]
        answer(asked, rows, fields=_CHANGES, columns=_CHANGE_COLUMNS, notes=notes)
        return
    notes += [
        "CHANGED: + added, - removed, ~ moved in time; FALSE: used again within " + within,
        "saved: likely, and from least to most; below 0 = spent. The rules are in docs/lab.md",
    ]
    within_s = within_us // SECOND_US
    rows = compared_rows(made, policy, by.value, _GROUPS, lambda *_: {"within_s": within_s})
    columns = group_columns(
        title, "STOPS", Column("CHANGED", changed, drop=2),
        Column("FALSE", lambda row: row["false_culls"], is_figure=True), less="SAVED",
    )  # fmt: skip
    answer(asked, rows, fields=_GROUPS, columns=columns, notes=notes)


def _change(one: CullChange) -> dict[str, Any]:
    verb = one.decision.wire_type.removeprefix("decision.")
    return decision_row(one, _CHANGES, decision=verb, uid=one.uid, again_at=stamp(one.again_us))


_CHANGE_COLUMNS = (
    field("CHANGE"),
    field("DECISION"),
    Column("NOTEBOOK", lambda row: f"{row['namespace']}/{row['name']}"),
    field("RECORDED", "recorded_at", show=moment),
    field("TRIED", "tried_at", show=moment),
    field("AGAIN AT", show=moment, drop=1),
    field("REASON", drop=2),
    field("KIND", wide=True),
    field("TEAM", wide=True),
    field("UID", wide=True),
)
