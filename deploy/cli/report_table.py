"""How a report looks: figures aligned, a rule above the total, and quietly below, what the figures rest on."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from deploy.cli.output import console, inert
from deploy.cli.units import NAMES, Unit, amounts
from projections.reports import Row, Sums

_HEADS = {
    "cpu_milli_s": {Unit.HOURS: "core-hours", Unit.SECONDS: "core-seconds", Unit.EXACT: "milli-core s", Unit.PERCENT: "cores %"},
    "gpu_milli_s": {Unit.HOURS: "GPU-hours", Unit.SECONDS: "GPU-seconds", Unit.EXACT: "milli-GPU s", Unit.PERCENT: "GPUs %"},
    "memory_mib_s": {Unit.HOURS: "GiB-hours", Unit.SECONDS: "GiB-seconds", Unit.EXACT: "MiB s", Unit.PERCENT: "memory %"},
}  # fmt: skip


def print_report(
    names: Sequence[str],
    rows: Sequence[Row],
    total: Row | None,
    unit: Unit,
    notes: Sequence[str],
    *,
    amounts: bool = False,
) -> None:
    """Print a report as a table, with the total below where there is more than one group."""
    out = console()
    if not rows:
        out.print("Nothing was held in this period.")
    else:
        out.print(table(names, rows, total, unit, is_short=amounts))
    for note in notes:
        out.print(Text(note, style="dim"))


def table(
    names: Sequence[str], rows: Sequence[Row], total: Row | None, unit: Unit, *, is_short: bool
) -> Table:
    """The report as a table of rich."""
    made = Table(
        box=box.SIMPLE_HEAD, header_style="bold", footer_style="bold", pad_edge=False,
        show_footer=bool(names) and total is not None and len(rows) > 1,
    )  # fmt: skip
    whole = total.sums if total is not None else rows[0].sums
    foot = _cells(whole, unit, whole, is_short)
    for place, name in enumerate(names):
        made.add_column(name, footer="all" if place == 0 else "", overflow="fold")
    for (head, _), cell in zip(_columns(unit, is_short), foot, strict=True):
        made.add_column(head, justify="right", footer=cell, no_wrap=True)
    previous: Sequence[object] = ()
    for row in rows:
        # A repeated first group is said once, as in any printed statement.
        repeated = [
            bool(previous)
            and list(row.key[: n + 1]) == list(previous[: n + 1])
            and n < len(names) - 1
            for n in range(len(names))
        ]
        keys = [_key(v, r) for v, r in zip(row.key, repeated, strict=True)]
        made.add_row(*keys, *_cells(row.sums, unit, whole, is_short))
        previous = row.key
    return made


def _key(value: object, is_repeated: bool) -> Text:
    if is_repeated:
        return Text("")
    if value is None:
        return Text("–", style="dim")
    return Text(inert(str(value)), style="dim" if value == "unassigned" else "")


def _columns(unit: Unit, is_short: bool) -> list[tuple[str, str]]:
    figures = [(_HEADS[attribute][unit], name) for name, attribute, _ in NAMES[unit]]
    if is_short:
        return figures
    return [("pods", "pods"), ("held", "held_pods"), *figures, ("waiting", ""), ("unknown", "")]


def _cells(sums: Sums, unit: Unit, whole: Sums, is_short: bool) -> list[Text]:
    figures = [_figure(value, unit) for value in amounts(sums, unit, whole).values()]
    if is_short:
        return figures
    return [
        _count(sums.pods),
        _count(sums.held_pods),
        *figures,
        _duration(sums.waiting_s),
        _duration(sums.unknown_s, style="yellow"),
    ]


def _count(value: int) -> Text:
    return Text(f"{value:,}") if value else Text("–", style="dim")


def _figure(value: float, unit: Unit) -> Text:
    if not value:
        return Text("–", style="dim")
    if unit is Unit.PERCENT:
        return Text(f"{value:.2f}")
    return Text(f"{value:,}" if isinstance(value, int) else f"{value:,.2f}")


def _duration(seconds: int, style: str = "") -> Text:
    """Seconds in the two largest units that say something."""
    if not seconds:
        return Text("–", style="dim")
    days, rest = divmod(seconds, 86_400)
    hours, rest = divmod(rest, 3_600)
    minutes, rest = divmod(rest, 60)
    if days:
        text = f"{days:,}d {hours:02}h"
    elif hours:
        text = f"{hours}h {minutes:02}m"
    else:
        text = f"{minutes}m {rest:02}s" if minutes else f"{rest}s"
    return Text(text, style=style)
