"""``bursar lab scheduling``: recorded pods under another policy of the scheduler."""

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
    compared_rows,
    draw,
    group_columns,
    hours,
    recorded,
    span,
    stamp,
)
from deploy.cli.options import Cluster, CommandContext, command
from deploy.cli.rendering.answers import answer, field
from deploy.cli.rendering.layout import Cell
from deploy.cli.rendering.tables import Column, Row
from deploy.cli.rendering.words import moment

if TYPE_CHECKING:
    from reactors.lab.comparison import Comparison
    from reactors.lab.placements import PlacementChange, PlacementGroup
    from reactors.lab.placements.outcome import Kind

KINDS: tuple[Kind, ...] = ("elsewhere", "sooner", "later", "placed", "not_placed", "evicted")
_SPANS = tuple(f"{name}{end}" for name in ("waited_less_s", "node_less_s") for end in ("", "_low", "_high"))  # fmt: skip
_GROUPS = ("group", "name", "pods", "recorded", "tried", *KINDS, "waited_s", "node_s", *_SPANS, *EXACT)  # fmt: skip
_PODS = (
    "change", "namespace", "name", "team", "uid", "came_at", "recorded_node", "recorded_at", "tried_node", "tried_at",
)  # fmt: skip
_HOUR = 3_600


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    command(app, "scheduling", of_cluster=True)(scheduling)


def scheduling(
    asked: CommandContext,
    policy: Annotated[
        list[Path],
        typer.Option(
            "--policy",
            metavar="FILE",
            help="The policy to try: a settings file with a section scheduling; again to compare several.",
        ),
    ],
    start: Start = None,
    end: End = None,
    by: Annotated[By, typer.Option("--by", help="Whose pods are added up.")] = By.NAMESPACE,
    pods: Annotated[
        bool, typer.Option("--pods", help="Each pod that differs, instead of sums.")
    ] = False,
    svg: Svg = None,
    cluster: Cluster = None,
) -> None:
    """Another scheduling policy on recorded history: nodes, waits.

    Pods come as they did, whoever placed them, and are placed by the rules that place them live, by the policy in FILE. How
    long a pod would have run elsewhere or at another time is filled in by three rules, so hours are an interval; docs/lab.md
    has the rules.

    \b
    scheduling:
      policy:
        preemption: on
        profiles:
          - fields: {NodeResourcesFit: {strategy: MostAllocated}}

    \b
    bursar lab scheduling --policy packed.yaml --from 30d
    bursar lab scheduling --policy packed.yaml --pods -o csv
    bursar lab scheduling --policy packed.yaml --policy spread.yaml
    """
    from deploy.queries.lab_placements import proposed_placements, tried_placements

    if len(policy) > 1 and pods:
        raise typer.BadParameter("--pods is about one", param_hint="--policy")
    wanted = [proposed_placements(path) for path in policy]
    with recorded(asked, cluster, start, end) as (select, name, first, last):
        found = tried_placements(select, name, wanted, first, last, by.value)
    notes = [f"events {first + 1:,} to {last:,}, whoever placed the pods"]
    draw(svg, "Waited less", found, policy)
    if pods:
        rows = [_pod(one) for one in found[0].changes if one.kind != "same"]
        answer(asked, rows, fields=_PODS, columns=_POD_COLUMNS, notes=notes)
        return
    notes += [
        "SOONER, LATER: by more than 20 s; ELSEWHERE: at the same time on another node",
        "hours: likely, and from least to most; below 0 = more. The rules are in docs/lab.md",
    ]
    rows = compared_rows(found, policy, by.value, _GROUPS, _more)
    notes += [_nodes(row) for row in rows if row["node_s"] is not None]
    title = "policy" if len(policy) > 1 else by.value
    answer(asked, rows, fields=_GROUPS, columns=_columns(title), notes=notes)


def _more(
    one: PlacementGroup, whole: Comparison[PlacementChange, PlacementGroup] | None
) -> dict[str, Any]:
    return {
        **{kind: one.kinds.get(kind, 0) for kind in KINDS},
        "node_s": whole.node_s if whole is not None else None,
        **span("waited_less_s", one.saved_s),
        **span("node_less_s", whole.node_less_s if whole is not None else None),
    }


def _nodes(row: Row) -> str:
    """The node-hours with any pod; nodes without pods could be switched off."""
    label = f"{row['name']}: " if row["group"] == "policy" else ""
    less = hours(row, "node_less_s", _HOUR)
    return f"{label}nodes had pods for {row['node_s'] / _HOUR:,.1f} hours on record; fewer: {less}"


def _pod(one: PlacementChange) -> dict[str, Any]:
    life = one.life
    return {
        "change": one.kind, "namespace": life.namespace, "name": life.name, "team": life.team, "uid": life.uid,
        "came_at": stamp(life.arrived_us), "recorded_node": life.node or None, "recorded_at": stamp(one.recorded_us),
        "tried_node": one.decision.node or None, "tried_at": stamp(one.tried_us),
    }  # fmt: skip


def _waited(row: Row) -> Cell:
    return Cell(f"{row['waited_s'] / _HOUR:,.1f}", "figure")


def _columns(by: str) -> tuple[Column, ...]:
    return group_columns(
        by, "PLACED", field("ELSEWHERE", drop=2), field("SOONER"), field("LATER"), field("EVICTED", drop=3),
        Column("WAITED HOURS", _waited, is_figure=True, drop=1),
        Column("WAITED LESS", lambda row: hours(row, "waited_less_s", _HOUR), is_figure=True),
        less="LESS", drop=0, wide=True,
    )  # fmt: skip


_POD_COLUMNS = (
    field("CHANGE"),
    Column("POD", lambda row: f"{row['namespace']}/{row['name']}"),
    field("RECORDED", "recorded_node"),
    field("AT", "recorded_at", show=moment),
    field("TRIED", "tried_node"),
    field("TRIED AT", "tried_at", show=moment, drop=1),
    field("CAME AT", "came_at", show=moment, wide=True),
    field("TEAM", wide=True),
    field("UID", wide=True),
)
