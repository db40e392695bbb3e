"""``bursar schedule scores``: the whole table of one decision of the scheduler, derived again from the history."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import sqlalchemy as sa
import typer

from bus.clock import format_stamp
from deploy.cli.notes.position import footer, standing
from deploy.cli.options import Cluster, CommandContext, command
from deploy.cli.quotas.finding import find
from deploy.cli.rendering import Format
from deploy.cli.rendering.answers import answer
from deploy.cli.rendering.layout import Cell
from deploy.cli.rendering.tables import Column, Row
from deploy.errors import AbsentObjectError
from deploy.runtime.ledgers import reading

if TYPE_CHECKING:
    from deploy.queries.scheduling_decisions import Derived, Recorded

#: Default number of shown nodes.
USUAL = 10

_FIELDS = ("rank", "pod", "node", "score", "scores", "refused")


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    command(app, "scores", question=True)(scores)


def scores(
    asked: CommandContext,
    pod: Annotated[str, typer.Argument(metavar="POD", help="NAMESPACE/NAME or uid.")],
    decision: Annotated[
        str | None,
        typer.Option("--decision", metavar="ID", help="The id of a pass; by default the newest."),
    ] = None,
    most: Annotated[
        int | None, typer.Option("--top", min=0, help="The best so many nodes; else all in files.")
    ] = None,
    cluster: Cluster = None,
) -> None:
    """Scores of all nodes for one placement. Each plugin has its own score; refused nodes have the reason.

    The table is computed again from the history up to the decision, so on a long history it takes a while. The first line is
    the best node; the decision chose among equal ones by a seed.

    \b
    bursar schedule scores vision/train-7-x2k4v
    bursar schedule scores vision/train-7-x2k4v -o json     # all nodes, with the reasons of refusals
    """
    from deploy.queries.scheduling import only_cluster
    from deploy.queries.scheduling_decisions import derived, recorded

    with reading(asked.place) as connection:

        def select(query: sa.Select[Any]) -> list[tuple[Any, ...]]:
            return [tuple(row) for row in connection.execute(query)]

        stands = standing(connection)
        name = cluster or only_cluster(stands.moments, asked.place.cluster)
        uids = {one.uid for one in find(connection, name, pod) if one.kind == "Pod"}
        found = recorded(connection, select, name, decision or "", uids) if uids else []
        found = [one for one in found if one.pod.uid in uids and decision in (None, one.event.id)]
        if not found:
            raise AbsentObjectError(f"no decision of the scheduler about {pod[:64]!r} is recorded")
        one = found[-1]
        table = derived(select, name, one)
    is_table = asked.output is Format.TABLE
    rows = _rows(one, table, USUAL if most is None and is_table else most)
    plugins = sorted(table.scores)
    notes = [
        f"decision {one.event.id} on event {one.fact.after:,}, {format_stamp(one.fact.at_us)}:"
        f" {one.node or 'no node'}, {one.outcome}",
        *_different(one, table),
        *footer(stands.sequence, stands.moments.get(name, 0)),
    ]
    answer(asked, rows, fields=_FIELDS, columns=_columns(plugins), notes=notes)


def _rows(one: Recorded, table: Derived, most: int | None) -> list[dict[str, Any]]:
    from reactors.scheduling.diagnosis.score_table import HEAD, score_table

    pod = f"{one.pod.namespace}/{one.pod.name}"
    header, lines = score_table(pod, table.nodes, table.scores, most)
    rows: list[dict[str, Any]] = []
    for line in lines:
        rank, _, node, score, *shares = line
        plugins = dict(zip(header[len(HEAD) :], shares, strict=True))
        rows.append({"rank": int(rank), "pod": pod, "node": node, "score": score, "scores": plugins, "refused": {}})  # fmt: skip
    left = None if most is None else max(0, most - len(rows))
    rows += [
        {"rank": None, "pod": pod, "node": node, "score": None, "scores": {}, "refused": reasons}
        for node, reasons in list(table.refused.items())[:left]
    ]
    return rows


def _different(one: Recorded, table: Derived) -> list[str]:
    if table.node == one.node:
        return []
    return [f"by the rules of this version it would be {table.node or 'no node'}"]


def _columns(plugins: list[str]) -> list[Column]:
    def share(plugin: str, drop: int) -> Column:
        def cell(row: Row) -> Any:
            return row["scores"].get(plugin)

        return Column(plugin, cell, wide=True, drop=drop, is_figure=True)

    return [
        Column("#", lambda row: row["rank"], is_figure=True),
        Column("NODE", lambda row: Cell(row["node"])),
        Column("SCORE", lambda row: row["score"], is_figure=True),
        Column("SCORES", _shares),
        Column("REFUSED BY", _refused),
        *(share(plugin, number) for number, plugin in enumerate(plugins, 1)),
    ]


def _shares(row: Row) -> Cell | None:
    parts = [f"{plugin} {score}" for plugin, score in row["scores"].items() if score]
    return Cell(", ".join(parts), "words") if parts else None


def _refused(row: Row) -> Cell | None:
    parts = [f"{plugin}: {', '.join(reasons)}" for plugin, reasons in row["refused"].items()]
    return Cell("; ".join(parts), "words") if parts else None
