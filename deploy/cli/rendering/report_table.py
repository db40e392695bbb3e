"""The form of a report: aligned figures, a rule above the total, and notes on the figures' basis below."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from deploy.cli.rendering.layout import Cell
from deploy.cli.rendering.tables import DIM, YELLOW, Column, print_lines, print_table
from deploy.cli.rendering.units import NAMES, Unit, amounts
from deploy.cli.rendering.words import duration
from projections.reports import ReportRow, Sums

_HEADS = {
    "cpu_milli_s": {Unit.HOURS: "CORE-HOURS", Unit.SECONDS: "CORE-SECONDS", Unit.EXACT: "MILLI-CORE S", Unit.PERCENT: "CORES %"},
    "gpu_milli_s": {Unit.HOURS: "GPU-HOURS", Unit.SECONDS: "GPU-SECONDS", Unit.EXACT: "MILLI-GPU S", Unit.PERCENT: "GPUS %"},
    "memory_mib_s": {Unit.HOURS: "GIB-HOURS", Unit.SECONDS: "GIB-SECONDS", Unit.EXACT: "MIB S", Unit.PERCENT: "MEMORY %"},
}  # fmt: skip

#: A line of the table: the keys as they are shown, and the sums.
Line = tuple[Sequence[Any], Sums]


def print_report(
    names: Sequence[str],
    rows: Sequence[ReportRow],
    total: ReportRow | None,
    unit: Unit,
    notes: Sequence[str],
    *,
    amounts: bool = False,
    wide: bool = False,
) -> None:
    """Print a report as a table, with the total below where there is more than one group."""
    if not rows:
        print_lines(["Nothing was held in this period.", *notes])
        return
    whole = total.sums if total is not None else rows[0].sums
    has_total = bool(names) and total is not None
    foot = (["all", *[Cell("", "name")] * (len(names) - 1)], whole) if has_total else None
    columns = [_key(name, place) for place, name in enumerate(names)]
    figures = [
        Column(
            _HEADS[attribute][unit],
            _figure(unit, name, whole),
            drop=(0, 0, 1)[place],
            is_figure=True,
        )
        for place, (name, attribute, _) in enumerate(NAMES[unit])
    ]
    if amounts:
        columns += figures
    else:
        columns += [
            Column("PODS", lambda line: line[1].pods or None, drop=3, is_figure=True),
            Column("HELD", lambda line: line[1].held_pods or None, drop=4, is_figure=True),
            *figures,
            Column("WAITING", lambda line: duration(line[1].waiting_s), drop=2, is_figure=True),
            Column("UNKNOWN", lambda line: duration(line[1].unknown_s, YELLOW), is_figure=True),
        ]
    print_table(columns, list(_without_repeats(rows)), notes, total=foot, wide=wide)


def _without_repeats(rows: Sequence[ReportRow]) -> list[Line]:
    """A repeated first group is said once, as in any printed statement."""
    found: list[Line] = []
    previous: Sequence[object] = ()
    for row in rows:
        keys = []
        for place, value in enumerate(row.key):
            is_repeated = bool(previous) and list(row.key[: place + 1]) == list(
                previous[: place + 1]
            )
            last = place == len(row.key) - 1
            style = DIM if value == "unassigned" else ""
            keys.append(
                Cell("", "name") if is_repeated and not last
                else None if value is None else Cell(str(value), "name", style)
            )  # fmt: skip
        found.append((keys, row.sums))
        previous = row.key
    return found


def _key(name: str, place: int) -> Column:
    return Column(
        name.upper() if not name.startswith("label:") else name, lambda line: line[0][place]
    )


def _figure(unit: Unit, name: str, whole: Sums) -> Callable[[Line], Any]:
    def cell(line: Line) -> Any:
        value = amounts(line[1], unit, whole)[name]
        if not value:
            return None
        if unit is Unit.PERCENT:
            return Cell(f"{value:.2f}", "figure")
        return Cell(f"{value:,}" if isinstance(value, int) else f"{value:,.2f}", "figure")

    return cell
