"""Quotas with their use and their rest, read from the views ``v1_quotas``, ``v1_quota_usage`` and ``v1_budget``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from bus.kube.crds.keys import CASH, key_text
from deploy.cli.notes.position import standing
from deploy.cli.rendering.layout import Cell
from deploy.cli.rendering.tables import Column, Row

_BINARY = re.compile(r"([\d.]+)([KMGTPE]i)\Z")
#: Keys in one cell; the others are counted.
SHOWN_KEYS = 3


class Usage(msgspec.Struct):
    """One key of a quota. ``hard`` None = not limited."""

    hard: int | None = None
    used: int = 0
    self_used: int = 0
    claimed: int = 0
    ungoverned: int = 0


class Budget(msgspec.Struct):
    """One budget at the ledger's moment, in unit·seconds. ``exhausts_s``: when it was spent, or will be; None = not in this
    period.
    """

    limit: int
    spent: int
    left: int
    exhausts_s: int | None


class Line(msgspec.Struct):
    """One quota; ``usage`` and ``budgets`` (keys without ``cash/``) in the order of their keys."""

    cluster: str
    kind: str
    name: str
    parent: str
    problem: str = ""
    usage: dict[str, Usage] = {}
    budgets: dict[str, Budget] = {}

    @property
    def exhausts_s(self) -> int | None:
        """When the first of its budgets is used up."""
        found = [one.exhausts_s for one in self.budgets.values() if one.exhausts_s is not None]
        return min(found, default=None)


_QUOTAS = (
    "SELECT cluster, kind, name, parent, problem, hard FROM v1_quotas"
    " WHERE vanished = 0 ORDER BY name, kind, cluster"
)
_USAGE = (
    "SELECT cluster, kind, quota, parent, key, hard, used, self_used, claimed, ungoverned"
    " FROM v1_quota_usage ORDER BY quota, kind, key"
)
_BUDGETS = (
    "SELECT cluster, quota, key, hard, credits, is_granted, spent, remaining, exhausts_s, start_s,"
    " end_s FROM v1_budget ORDER BY quota, key"
)


def lines(connection: sa.Connection, cluster: str | None = None) -> list[Line]:
    """Every existing quota, of one cluster or all, by name."""
    found: dict[tuple[str, str, str], Line] = {}
    for named, kind, name, parent, problem, hard in _rows(connection, _QUOTAS, cluster):
        limits = json.loads(hard or "{}")
        usage = {key: Usage(limits[key]) for key in sorted(limits)}
        found[(named, kind, name)] = Line(named, kind, name, parent or "", problem or "", usage)
    for named, kind, name, parent, key, *amounts in _rows(connection, _USAGE, cluster):
        # A quota that was admitted and not observed yet is in its tree only.
        line = found.setdefault((named, kind, name), Line(named, kind, name, parent))
        line.usage[key] = Usage(*amounts)
    by_name = {(line.cluster, line.name): line for line in found.values() if "Biz" in line.kind}
    for named, name, key, hard, credits, granted, spent, left, exhausts_s, start_s, end_s in _rows(
        connection, _BUDGETS, cluster
    ):
        if (named, name) in by_name:
            limit = hard + credits if granted else 0
            if left <= 0:
                span = (start_s, end_s, bool(granted))
                exhausts_s = exhausted(connection, named, name, key, span, limit)
            by_name[(named, name)].budgets[key] = Budget(limit, spent, left, exhausts_s)
    return [found[key] for key in sorted(found, key=lambda key: (key[2], key[1], key[0]))]


def exhausted(
    connection: sa.Connection,
    cluster: str,
    quota: str,
    key: str,
    period: tuple[int, int | None, bool],
    limit: int,
) -> int | None:
    """The time at which a spent budget was used up. ``period``: start, end, and whether anything is granted in it."""
    # Only for spent budgets: most questions need no budgets' rules.
    from projections.budgets import Period
    from projections.budgets.queries import exhausted_s

    def select(query: sa.Select[Any]) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in connection.execute(query)]

    at_s = standing(connection).observed_s
    return exhausted_s(select, cluster, quota, key, period=Period(*period), limit=limit, at_s=at_s)


def _rows(connection: sa.Connection, query: str, cluster: str | None) -> Iterable[Sequence[Any]]:
    rows = connection.execute(sa.text(query))
    return (tuple(row) for row in rows if cluster in (None, row[0]))


def depth_first(found: Sequence[Line]) -> list[tuple[str, Line]]:
    """(branches as they are drawn, quota): each below its parent, roots and quotas without their parent first."""
    below: dict[tuple[str, str, str], list[Line]] = {}
    there = {_place(line) for line in found}
    for line in found:
        above = (line.cluster, line.kind, line.parent)
        below.setdefault(above if above in there else ("", "", ""), []).append(line)
    roots = below.get(("", "", ""), [])
    drawn: list[tuple[str, Line]] = []
    seen: set[int] = set()
    # Quotas in a cycle of parents have no root: they are drawn last, from the first one on.
    waiting = [("", "", line) for line in reversed([*roots, *found])]
    while waiting:
        own, following, line = waiting.pop()
        if id(line) in seen:
            continue
        seen.add(id(line))
        drawn.append((own, line))
        children = below.get(_place(line), [])
        for child in reversed(children):
            is_last = child is children[-1]
            branch, rest = ("└─ ", "   ") if is_last else ("├─ ", "│  ")
            waiting.append((following + branch, following + rest, child))
    return drawn


def _place(line: Line) -> tuple[str, str, str]:
    return (line.cluster, line.kind, line.name)


def amount_text(key: str, amount: int | None) -> str | None:
    """An amount as people say it, bytes as ``16 GiB``; None for no limit."""
    return None if amount is None else _BINARY.sub(r"\1 \2B", key_text(key, amount))


def hours_text(key: str, amount: int) -> str:
    """An amount of a budget in its hours."""
    return key_text(CASH + key, amount)


def hours_column(title: str, name: str, drop: int = 0) -> Column:
    """A column of an amount of a budget, in hours."""

    def cell(row: Row) -> Cell:
        return Cell(hours_text(row["key"], row[name]), "figure")

    return Column(title, cell, drop=drop)


def in_short(texts: dict[str, str]) -> str:
    """``limits.cpu: 10, limits.memory: 64Gi +2``."""
    shown = [f"{key}: {text}" for key, text in list(texts.items())[:SHOWN_KEYS]]
    more = f" +{len(texts) - SHOWN_KEYS}" if len(texts) > SHOWN_KEYS else ""
    return ", ".join(shown) + more
