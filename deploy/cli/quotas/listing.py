"""``bursar get quotas`` and ``bursar quota tree``."""

from __future__ import annotations

from typing import Any

import typer

from deploy.cli import times
from deploy.cli.notes.position import footer, standing
from deploy.cli.options import Cluster, CommandContext, command
from deploy.cli.quotas.reading import (
    Line,
    amount_text,
    depth_first,
    hours_text,
    in_short,
    lines,
)
from deploy.cli.rendering import Format
from deploy.cli.rendering.answers import field
from deploy.cli.rendering.layout import Cell
from deploy.cli.rendering.output import write
from deploy.cli.rendering.tables import Column, print_table
from deploy.cli.rendering.words import moment, words
from deploy.runtime.ledgers import reading

_FIELDS = ("name", "parent", "used", "hard", "budget_left", "exhausts_at", "kind", "cluster")
_TREE_FIELDS = (
    "quota", "parent", "depth", "key", "used", "hard", "self_used", "claimed", "ungoverned",
    "budget_left", "exhausts_at", "kind", "cluster",
)  # fmt: skip


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    command(app, "tree", question=True)(tree)
    command(app, "quotas", question=True)(quotas)


def quotas(asked: CommandContext, cluster: Cluster = None) -> None:
    """Quotas, one a line: used amounts, limits and budgets.

    USED is the charge of the quota's own workloads plus the claims of its children. BUDGET-LEFT is in hours. EXHAUSTS-AT is the
    end of the first budget if all running workloads continue. Other formats have every key and exact integers: milli-cores,
    bytes, and unit-seconds of budgets.

    \b
    bursar get quotas
    bursar get quotas -o json
    """
    with reading(asked.place) as connection:
        found = lines(connection, cluster)
        stands = standing(connection)
    if asked.output is not Format.TABLE:
        write([_record(line) for line in found], asked.output, columns=_FIELDS)
        return
    notes = footer(stands.sequence, stands.observed_s)
    print_table(_COLUMNS, found, notes, wide=asked.is_wide)


def tree(asked: CommandContext, cluster: Cluster = None) -> None:
    """Quotas as a tree, with a line for each key.

    A child takes its whole limit from its parent, used or not. USED is WORKLOADS (the charge of the quota's own workloads) plus
    CHILDREN (the claims of its child quotas).

    \b
    bursar quota tree
    bursar quota tree -o csv
    """
    with reading(asked.place) as connection:
        drawn = depth_first(lines(connection, cluster))
        stands = standing(connection)
    if asked.output is not Format.TABLE:
        rows = [row for branch, line in drawn for row in _tree_records(branch, line)]
        write(rows, asked.output, columns=_TREE_FIELDS)
        return
    rows = [row for branch, line in drawn for row in _tree_rows(branch, line)]
    notes = footer(stands.sequence, stands.observed_s)
    print_table(_TREE_COLUMNS, rows, notes, wide=asked.is_wide)


def _used(line: Line) -> Cell | None:
    used = {key: amount_text(key, one.used) or "" for key, one in line.usage.items()}
    return words(in_short({key: used[key] for key in _hard(line) or used}))


def _hard(line: Line) -> dict[str, str]:
    return {
        key: text
        for key, one in line.usage.items()
        if (text := amount_text(key, one.hard)) is not None
    }


def _allowed(line: Line) -> Cell | None:
    return words(f"unusable: {line.problem}" if line.problem else in_short(_hard(line)))


def _left(line: Line) -> Cell | None:
    return words(in_short({key: hours_text(key, one.left) for key, one in line.budgets.items()}))


def _figure(text: str | None) -> Cell | None:
    return Cell(text, "figure") if text else None


_COLUMNS = (
    Column("NAME", lambda line: line.name),
    Column("PARENT", lambda line: line.parent, drop=2),
    Column("USED", _used),
    Column("HARD", _allowed),
    Column("BUDGET-LEFT", _left),
    Column("EXHAUSTS-AT", lambda line: moment(times.stamp(line.exhausts_s)), drop=1),
    Column("KIND", lambda line: line.kind, wide=True),
    Column("CLUSTER", lambda line: line.cluster, wide=True),
)
_TREE_COLUMNS = (
    field("QUOTA", "QUOTA"), field("KEY", "KEY"), field("USED", "USED"), field("HARD", "HARD"),
    field("WORKLOADS", "WORKLOADS", drop=2), field("CHILDREN", "CHILDREN", drop=2), field("BUDGET-LEFT", "BUDGET-LEFT"),
    field("EXHAUSTS-AT", "EXHAUSTS-AT", drop=1, show=moment),
)  # fmt: skip


def _record(line: Line) -> dict[str, Any]:
    return {
        "name": line.name,
        "parent": line.parent,
        "used": {key: one.used for key, one in line.usage.items()},
        "hard": {key: one.hard for key, one in line.usage.items() if one.hard is not None},
        "budget_left": {key: one.left for key, one in line.budgets.items()},
        "exhausts_at": times.stamp(line.exhausts_s),
        "kind": line.kind,
        "cluster": line.cluster,
    }


def _keys(line: Line) -> list[str]:
    return sorted({*line.usage, *line.budgets}) or [""]


def _tree_rows(branch: str, line: Line) -> list[dict[str, Any]]:
    rows = []
    for number, key in enumerate(_keys(line)):
        one, budget = line.usage.get(key), line.budgets.get(key)
        # The branches go on beside the further keys of a quota.
        beside = branch.replace("├─", "│ ").replace("└─", "  ") or " "
        rows.append({
            "QUOTA": Cell(branch + line.name if number == 0 else beside),
            "KEY": key,
            "USED": _figure(amount_text(key, one.used)) if one else None,
            "HARD": _figure(amount_text(key, one.hard)) if one else None,
            "WORKLOADS": _figure(amount_text(key, one.self_used)) if one else None,
            "CHILDREN": _figure(amount_text(key, one.claimed)) if one else None,
            "BUDGET-LEFT": _figure(hours_text(key, budget.left)) if budget else None,
            "EXHAUSTS-AT": times.stamp(budget.exhausts_s) if budget else None,
        })  # fmt: skip
    return rows


def _tree_records(branch: str, line: Line) -> list[dict[str, Any]]:
    rows = []
    for key in _keys(line):
        one, budget = line.usage.get(key), line.budgets.get(key)
        rows.append({
            "quota": line.name, "parent": line.parent, "depth": len(branch) // 3, "key": key,
            "used": one.used if one else None, "hard": one.hard if one else None,
            "self_used": one.self_used if one else None, "claimed": one.claimed if one else None,
            "ungoverned": one.ungoverned if one else None,
            "budget_left": budget.left if budget else None,
            "exhausts_at": times.stamp(budget.exhausts_s) if budget else None,
            "kind": line.kind, "cluster": line.cluster,
        })  # fmt: skip
    return rows
