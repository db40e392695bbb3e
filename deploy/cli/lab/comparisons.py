"""Comparisons of ``bursar lab``: options, rows, columns and pictures shared by its commands."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bus.clock import format_stamp
from bus.errors import TimestampError
from deploy.cli.culling import selecting
from deploy.cli.notes.position import standing
from deploy.cli.options import CommandContext
from deploy.cli.past import sequence_at
from deploy.cli.rendering.layout import Cell
from deploy.cli.rendering.output import say
from deploy.cli.rendering.tables import Column, Row
from deploy.cli.rendering.units import MILLI_HOUR
from deploy.runtime.ledgers import reading

if TYPE_CHECKING:
    from bus.events.decisions import Decision
    from projections.quota_trees.queries import Select
    from reactors.lab.comparison import Amount, Change, Comparison, Group

Start = Annotated[
    str | None,
    typer.Option(
        "--from", metavar="EVENT|TIME", help="It is tried from here; by default from the start."
    ),
]
End = Annotated[
    str | None,
    typer.Option("--to", metavar="EVENT|TIME", help="Up to here; by default the newest event."),
]
Svg = Annotated[
    Path | None,
    typer.Option("--svg", metavar="FILE", help="Draw the hours saved into this file, too."),
]

AMOUNTS = ("cpu_milli_s", "gpu_milli_s")
#: Their fields, as exact integers.
EXACT = tuple(f"{name}{end}" for name in AMOUNTS for end in ("", "_low", "_high"))


class By(StrEnum):
    """The grouping of savings."""

    NAMESPACE = "namespace"
    TEAM = "team"


@contextmanager
def recorded(
    asked: CommandContext, cluster: str | None, start: str | None, end: str | None
) -> Iterator[tuple[Select, str, int, int]]:
    """The archive, the cluster, and the event before the first one and the last one of a period. Raises typer.BadParameter."""
    with reading(asked.place) as connection:
        first = 0 if start is None else sequence_at(connection, start, "--from")
        newest = standing(connection).sequence
        last = newest if end is None else sequence_at(connection, end, "--to")
        if last <= first:
            raise typer.BadParameter("it is before --from", param_hint="--to")
        yield selecting(connection), cluster or asked.place.cluster, first, last


def compared_rows(
    found: Sequence[Comparison[Any, Any]], policies: Sequence[Path], by: str, fields: Sequence[str],
    more: Callable[[Any, Comparison[Any, Any] | None], dict[str, Any]] = lambda one, whole: {},
) -> list[dict[str, Any]]:  # fmt: skip
    """One row for each of several policies, or for each group of one and for all. ``more``: fields in addition to the group's."""

    def row(one: Group[Any], group: str, whole: Comparison[Any, Any] | None, **named: str) -> dict[str, Any]:  # fmt: skip
        known = {"group": group, **amounts(one), **named, **more(one, whole)}
        return {field: known[field] if field in known else getattr(one, field) for field in fields}

    if len(found) > 1:
        each = zip(found, policies, strict=True)
        return [row(one.total, "policy", one, name=str(path)) for one, path in each]
    (whole,) = found
    return [*(row(one, by, None) for one in whole.groups), row(whole.total, "total", whole)]


def decision_row(one: Change[Decision], fields: Sequence[str], **more: Any) -> dict[str, Any]:
    """The fields of a differing decision."""
    target = one.decision.target
    known = {
        "change": one.kind, "kind": target.kind, "namespace": target.namespace, "name": target.name, "node": target.node,
        "team": one.team, "reason": one.decision.reason, "recorded_at": stamp(one.recorded_us),
        "tried_at": stamp(one.tried_us), **more,
    }  # fmt: skip
    return {field: known[field] for field in fields}


def amounts(one: Group[Any], *, is_sure: bool = True) -> dict[str, int | None]:
    """Savings as exact integers; without the interval if only some rules were played."""
    found: dict[str, int | None] = {}
    for name in AMOUNTS:
        found |= span(name, getattr(one, name))
        if not is_sure:
            found |= {f"{name}_low": None, f"{name}_high": None}
    return found


def span(name: str, amount: Amount | None) -> dict[str, int | None]:
    """An interval as three fields."""
    if amount is None:
        return {name: None, f"{name}_low": None, f"{name}_high": None}
    return {name: amount.likely, f"{name}_low": amount.low, f"{name}_high": amount.high}


def group_columns(by: str, title: str, *own: Column, less: str, **options: Any) -> tuple[Column, ...]:  # fmt: skip
    """The name of a group, its numbers on record and under trial, its own columns, and hours."""
    return (
        Column(by.upper(), lambda row: row["name"] or ("all" if row["group"] == "total" else None)),
        Column(title, lambda row: f"{row['recorded']} to {row['tried']}", is_figure=True),
        *own,
        *hours_columns(less, **options),
    )


def hours_columns(less: str, *, drop: int = 1, wide: bool = False) -> tuple[Column, Column]:
    """GPU-hours and core-hours."""
    return (
        Column(f"GPU-HOURS {less}", lambda row: hours(row, "gpu_milli_s"), is_figure=True, wide=wide),
        Column(f"CORE-HOURS {less}", lambda row: hours(row, "cpu_milli_s"), is_figure=True, drop=drop, wide=wide),
    )  # fmt: skip


def changed(row: Row) -> Cell | None:
    """The numbers of added, removed and moved decisions."""
    signs = (("+", "added"), ("-", "removed"), ("~", "moved"))
    changes = [f"{sign}{row[name]}" for sign, name in signs if row[name]]
    return Cell(" ".join(changes), "fixed") if changes else None


def hours(row: Row, name: str, unit: int = MILLI_HOUR) -> Cell:
    """Hours with their interval; ``unit``: the size of one hour in the field."""
    found = [row[f"{name}{end}"] for end in ("", "_low", "_high")]
    if found[1] == found[2]:
        return Cell(f"{_tenths(found[0] / unit):,.1f}", "figure")
    likely, low, high = (_tenths(value / unit) for value in found)
    return Cell(f"{likely:,.1f} ({low:,.1f} to {high:,.1f})", "figure")


def _tenths(value: float) -> float:
    """Rounded, and 0 without a sign."""
    return round(value, 1) + 0.0


def stamp(us: int | None) -> str | None:
    """A time as text; None for a time without a stamp."""
    try:
        return None if us is None else format_stamp(us)
    except TimestampError:
        # Imported events may have any time.
        return None


def draw(
    path: Path | None, title: str, found: Sequence[Comparison[Any, Any]], policies: Sequence[Path] = (),
) -> None:  # fmt: skip
    """Draw the savings by group of one policy, or by policy, into a file. Raises SettingsError."""
    from deploy.cli.rendering.interval_picture import Bar, picture
    from deploy.errors import SettingsError

    if path is None:
        return
    whole = found[0]
    groups = [*((one.name or "–", one) for one in whole.groups), ("all", whole.total)]
    if len(found) > 1:
        groups = [(one.name, each.total) for one, each in zip(policies, found, strict=True)]
    titles = {"gpu_milli_s": "GPU-hours saved", "cpu_milli_s": "Core-hours saved"}
    panels = {
        panel: [Bar(label, *_of(getattr(one, name))) for label, one in groups]
        for name, panel in titles.items()
    }
    try:
        path.write_text(picture(f"{title}: likely, and from least to most", panels))
    except OSError as error:
        raise SettingsError(f"{path}: cannot be written: {error.strerror}") from None
    say(f"drawn: {path}")


def _of(amount: Amount) -> tuple[float, float, float]:
    return amount.low / MILLI_HOUR, amount.likely / MILLI_HOUR, amount.high / MILLI_HOUR
