"""``bursar budget shares``: a budget over several clusters, share by
share, and moves between them; its sums for ``list`` at a hub."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Annotated, Any

import sqlalchemy as sa
import typer

from bus.kube.crds.keys import CASH, hour_of
from deploy.cli import times
from deploy.cli.notes import lacking
from deploy.cli.notes.position import QUIET_S, LedgerPosition, standing, together
from deploy.cli.options import CommandContext, command
from deploy.cli.quotas.reading import hours_column, hours_text
from deploy.cli.rendering.answers import answer, field
from deploy.cli.rendering.escapes import inert
from deploy.cli.rendering.layout import Cell
from deploy.cli.rendering.tables import Column, Row
from deploy.cli.rendering.words import moment
from deploy.runtime.clusters import ClusterLink, is_hub, links, reading_all
from deploy.settings.near import absent
from deploy.settings.place import LedgerPlace
from projections.budgets.shares import BudgetShare, moves

_BUDGETS = (
    "SELECT quota, key, start_s, start_at, end_s, end_at, is_granted, cluster, hard, credits, spent,"
    " committed, remaining, exhausts_at FROM v1_budget ORDER BY quota, key, start_s, end_s, cluster"
)
#: The fields shared by all shares of one budget.
_SAME = ("quota", "key", "start_at", "end_at", "is_granted")
_SUMS = ("hard", "credits", "spent", "committed", "remaining")
_FIELDS = (*_SAME, "cluster", *_SUMS, "exhausts_at", "is_known", "move")
_SPANNING = (*_SAME, *_SUMS, "first_out_at", "first_out_in", "clusters")


def register(app: typer.Typer) -> None:
    """Add the command to ``budget``."""
    command(app, "shares", question=True, past=False, of_cluster=False)(shares)


def shares(
    asked: CommandContext,
    quota: Annotated[
        str | None, typer.Argument(metavar="[QUOTA]", help="Only the budgets of this quota.")
    ] = None,
) -> None:
    """Shares of budgets that span clusters. MOVE makes all shares last equally long.

    Budgets of one quota, key and period in several clusters are one budget, each a share of it. MOVE, in hours, follows from
    what each cluster has spent in this period. Silent clusters neither give nor take. The lines below the table are the credits
    that move the hours. Run each at its cluster, the one that takes hours away first: so the sum never exceeds the budget.

    \b
    bursar budget shares --data /data/hub
    bursar budget shares research --data /data/hub -o json
    """
    rows, stands = _read(asked.place, quota)
    spanning = [
        one for one in _together(rows) if quota is not None or len({r["cluster"] for r in one}) > 1
    ]
    notes = []
    for one in spanning:
        notes += _moved(one)
    if not spanning:
        notes.append(
            "a budget spans clusters where several have a quota of the same name, key and period"
        )
    notes += _stands(stands, rows)
    answer(
        asked,
        [row for one in spanning for row in one],
        fields=_FIELDS,
        columns=_COLUMNS,
        notes=notes,
    )


def list_spanning(asked: CommandContext, quota: str | None) -> None:
    """The answer of ``budget list`` at a hub: each budget once, with the sums of its shares."""
    rows, stands = _read(asked.place, quota)
    found = []
    for one in _together(rows):
        first = min(
            (row for row in one if row["exhausts_at"]), key=lambda r: r["exhausts_at"], default=None
        )
        found.append({
            **{name: one[0][name] for name in _SAME},
            **{name: sum(row[name] for row in one) for name in _SUMS},
            "first_out_at": first and first["exhausts_at"], "first_out_in": first and first["cluster"],
            "clusters": ",".join(row["cluster"] for row in one),
        })  # fmt: skip
    answer(
        asked,
        found,
        fields=_SPANNING,
        columns=_SPANNING_COLUMNS,
        notes=[
            "each is the sum of its shares (bursar budget shares); forecasts are of one: budget forecast --cluster NAME",
            *_stands(stands, rows),
        ],
    )


def _read(place: LedgerPlace, quota: str | None) -> tuple[list[dict[str, Any]], LedgerPosition]:
    """Every share, and the ledgers' positions. Raises an error with similar quotas if no budget has this name."""
    # A hub has its own name for each cluster.
    is_named, rows = is_hub(place), []
    with reading_all(place) as ledgers:
        each = {name: standing(one) for name, one in ledgers.items()}
        for name, one in ledgers.items():
            of_one = [dict(row._mapping) for row in one.execute(sa.text(_BUDGETS))]
            rows += [row | {"cluster": name} for row in of_one] if is_named else of_one
    lost = _unheard(each, links(place), is_named=is_named)
    for row in rows:
        row["is_known"] = row["cluster"] not in lost
    found = [row for row in rows if quota in (None, row["quota"])]
    if quota is not None and not found:
        raise absent("quota with a budget", quota, {row["quota"] for row in rows})
    return found, together(each)


def _unheard(
    each: Mapping[str, LedgerPosition], by_cluster: Mapping[str, ClusterLink], *, is_named: bool
) -> set[str]:
    """The clusters with unknown current use: their link is down, or they have no observation."""
    newest_s = together(each).newest_s
    found = {name for name, link in by_cluster.items() if not link.is_up}
    for ledger, stands in each.items():
        silent = [name for name, at_s in stands.moments.items() if newest_s - at_s > QUIET_S]
        found |= {ledger if is_named else name for name in silent}
    return found


def _together(rows: Iterable[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """The shares of each budget, by cluster, with the amounts to move."""

    def same(row: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(str(row[name]) for name in _SAME)

    found = []
    for _, parts in groupby(sorted(rows, key=lambda r: (same(r), r["cluster"])), same):
        one = list(parts)
        known = [
            BudgetShare(r["cluster"], r["spent"], r["committed"], r["remaining"], r["is_known"])
            for r in one
            if r["is_granted"]
        ]
        moved = moves(known, hour_of(CASH + one[0]["key"]))
        for row in one:
            row["move"] = moved.get(row["cluster"], 0) if row["is_known"] else None
        found.append(one)
    return found


def _moved(one: list[dict[str, Any]]) -> list[str]:
    """The credits of a move, negative ones first."""
    ordered = sorted((row for row in one if row["move"]), key=lambda r: (r["move"], r["cluster"]))
    takes = [row["cluster"] for row in ordered if row["move"] < 0]
    gives = [row["cluster"] for row in ordered if row["move"] > 0]
    lines = []
    for row in ordered:
        why = f"to {', '.join(gives)}" if row["move"] < 0 else f"from {', '.join(takes)}"
        hours = hours_text(row["key"], row["move"])
        # The clock may be in a later period than the newest observation.
        words = (
            "bursar", "budget", "credit", row["quota"], row["key"], hours, "--period", row["start_at"],
            "--reason", why,
        )  # fmt: skip
        lines.append(f"in {inert(row['cluster'])}: {inert(shlex.join(words))}")
    return lines


def _stands(stands: LedgerPosition, rows: Iterable[dict[str, Any]]) -> list[str]:
    lost = sorted({row["cluster"] for row in rows if not row["is_known"]})
    notes = [
        f"cluster {inert(name)} is not heard of: what it spent since is not known (bursar clusters)"
        for name in lost
    ]
    ends = f"as of event {stands.events}, {times.stamp(stands.observed_s)}{lacking.as_of()}"
    return [*notes, ends]


def _move(row: Row) -> Cell | None:
    if row["move"] is None:
        return Cell("unknown", "words")
    text = hours_text(row["key"], row["move"])
    return Cell(f"+{text}" if row["move"] > 0 else text, "figure")


def _first_out(row: Row) -> Cell | None:
    if not row["first_out_at"]:
        return None
    return Cell(f"{row['first_out_at'][:16].replace('T', ' ')} in {row['first_out_in']}", "words")


_COLUMNS = (
    field("QUOTA"),
    field("KEY"),
    field("CLUSTER"),
    hours_column("BUDGET", "hard"),
    hours_column("CREDITS", "credits", drop=3),
    hours_column("SPENT", "spent"),
    hours_column("COMMITTED", "committed", drop=4),
    hours_column("LEFT", "remaining"),
    field("EXHAUSTS-AT", show=moment, drop=2),
    Column("MOVE", _move),
    field("BEGAN", "start_at", show=moment, wide=True),
    field("ENDS", "end_at", show=moment, drop=1),
)
_SPANNING_COLUMNS = (
    field("QUOTA"),
    field("KEY"),
    field("ENDS", "end_at", show=moment, drop=2),
    hours_column("BUDGET", "hard"),
    hours_column("CREDITS", "credits", drop=3),
    hours_column("SPENT", "spent"),
    hours_column("COMMITTED", "committed", drop=4),
    hours_column("LEFT", "remaining"),
    Column("FIRST-OUT", _first_out, drop=1),
    field("CLUSTERS"),
    field("BEGAN", "start_at", show=moment, wide=True),
)
