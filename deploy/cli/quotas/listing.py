"""``bursar get quotas`` and ``bursar quota tree``."""

from __future__ import annotations

from typing import Any

from deploy.cli import times
from deploy.cli.asking import standing
from deploy.cli.options import Asked, Format
from deploy.cli.output import write
from deploy.cli.quotas.options import Cluster
from deploy.cli.quotas.reading import (
    Line,
    amount_text,
    depth_first,
    hours_text,
    in_short,
    lines,
)
from deploy.ledgers import reading

_TITLES = ("NAME", "PARENT", "USED", "HARD", "BUDGET-LEFT", "EXHAUSTS-AT")
_FIELDS = ("name", "parent", "used", "hard", "budget_left", "exhausts_at", "kind", "cluster")
_TREE_TITLES = ("QUOTA", "KEY", "USED", "HARD", "OWN", "BELOW", "BUDGET-LEFT", "EXHAUSTS-AT")
_TREE_FIELDS = (
    "quota", "parent", "depth", "key", "used", "hard", "self_used", "claimed", "ungoverned",
    "budget_left", "exhausts_at", "kind", "cluster",
)  # fmt: skip


def quotas(asked: Asked, cluster: Cluster = None) -> None:
    """Every quota in one line: what is used and allowed of each key, and what is left of its budgets.

    USED is what its own workloads hold and what the quotas below claim. BUDGET-LEFT is in hours; EXHAUSTS-AT is when the first
    budget is spent if what runs goes on. Other formats have every key and exact integers: milli-cores, bytes, and
    unit-seconds of budgets.

    \b
    bursar get quotas
    bursar get quotas -o json
    """
    with reading(asked.settings) as connection:
        found = lines(connection, cluster)
        stands = standing(connection)
    if asked.output is not Format.TABLE:
        write([_record(line) for line in found], asked.output, columns=_FIELDS)
        return
    rows = [dict(zip(_TITLES, _cells(line), strict=True)) for line in found]
    write(rows, asked.output, columns=_TITLES, footer=footer(stands.sequence, stands.observed_s))


def tree(asked: Asked, cluster: Cluster = None) -> None:
    """All quotas as the tree that they are: each below its parent, a line for each key.

    A child takes its whole limit from its parent, used or not: BELOW is what the children claim, OWN what the quota's own
    workloads hold, USED both together.

    \b
    bursar quota tree
    bursar quota tree -o csv
    """
    with reading(asked.settings) as connection:
        drawn = depth_first(lines(connection, cluster))
        stands = standing(connection)
    if asked.output is not Format.TABLE:
        rows = [row for branch, line in drawn for row in _tree_records(branch, line)]
        write(rows, asked.output, columns=_TREE_FIELDS)
        return
    rows = [row for branch, line in drawn for row in _tree_rows(branch, line)]
    write(
        rows, asked.output, columns=_TREE_TITLES, footer=footer(stands.sequence, stands.observed_s)
    )


def footer(sequence: int, observed_s: int) -> list[str]:
    """As of which event all this is said."""
    return [f"as of event {sequence:,}, {times.stamp(observed_s)}"]


def _cells(line: Line) -> tuple[str | None, ...]:
    used = {key: amount_text(key, one.used) or "" for key, one in line.usage.items()}
    hard = {
        key: text
        for key, one in line.usage.items()
        if (text := amount_text(key, one.hard)) is not None
    }
    left = {key: hours_text(key, one.left) for key, one in line.budgets.items()}
    return (
        line.name, line.parent, in_short({key: used[key] for key in hard or used}),
        f"unusable: {line.problem}" if line.problem else in_short(hard),
        in_short(left), times.stamp(line.exhausts_s),
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
            "QUOTA": branch + line.name if number == 0 else beside,
            "KEY": key,
            "USED": amount_text(key, one.used) if one else None,
            "HARD": amount_text(key, one.hard) if one else None,
            "OWN": amount_text(key, one.self_used) if one else None,
            "BELOW": amount_text(key, one.claimed) if one else None,
            "BUDGET-LEFT": hours_text(key, budget.left) if budget else None,
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
