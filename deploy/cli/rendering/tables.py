"""The form of every table: a bold head, a rule, rows, and notes on their basis below.

On a terminal a table fits its width. Less important content goes first: columns of least
importance are left out, and a line below names them; names are shortened in the middle, sentences broken between words. A name
is never broken, and a number never touched. In a pipe everything is shown in full, for any terminal: a row is a line.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deploy.cli.rendering.escapes import inert
from deploy.cli.rendering.layout import Cell, Texts, fitted, length, pad, widths, wrapped
from deploy.cli.rendering.user_names import opened
from deploy.settings.environment import environment

Row = Mapping[str, Any]

#: Between two columns.
GAP = "  "
#: Styles of a terminal.
BOLD, DIM, YELLOW = "1", "2", "33"

#: Terminal width of a remote asker of this output; None = there is none.
asker_width: int | None = None


@dataclass(frozen=True)
class Column:
    """One column: its head, and its cell of a row.

    ``wide``: only with ``-o wide``. ``drop``: where the table is too wide for the terminal, columns of the largest number
    go first; those of 0 stay. ``is_figure``: on the right, also where no row has any.
    """

    title: str
    cell: Callable[[Any], Any]
    wide: bool = False
    drop: int = 0
    is_figure: bool = False


def print_table(
    columns: Sequence[Column],
    rows: Sequence[Any],
    footer: Sequence[str] = (),
    *,
    title: str = "",
    total: Any = None,
    wide: bool = False,
) -> None:
    """Print rows in columns, the total below a rule of its own, and the footer. With ``wide`` all of them, and whole.

    A table without rows says ``none``.
    """
    asked = [column for column in columns if wide or not column.wide]
    every = [*rows, total] if total is not None else rows
    cells = [[shown(column.cell(row)) for column in asked] for row in every]
    texts = [
        Texts(column.title, [one[place] for one in cells], column.drop)
        for place, column in enumerate(asked)
    ]
    room = terminal_width()
    found = widths(texts, None if wide else room, len(GAP))
    kept = [
        (p, width, asked[p].is_figure or texts[p].kind == "figure")
        for p, width in enumerate(found)
        if width
    ]
    rule = styled("─" * (sum(w for _, w, _ in kept) + len(GAP) * (len(kept) - 1)), DIM)
    head = GAP.join(pad(asked[p].title, width, is_right) for p, width, is_right in kept)
    lines = [styled(inert(title), BOLD)] if title else []
    lines += [styled(head.rstrip(), BOLD), rule]
    lines += [styled("none", DIM)] * (not every)
    for number, row in enumerate(cells):
        is_total = total is not None and number == len(rows)
        lines += [rule] * is_total
        lines += _lines([(row[p], width, is_right) for p, width, is_right in kept], is_total)
    gone = [column.title for column, width in zip(asked, found, strict=True) if not width]
    if gone:
        more = f"no room for {', '.join(gone)}: a wider terminal or -o wide shows more"
        footer = [*footer, more]
    print_lines([*lines, *_footer(footer, room)])


def print_rows(
    names: Sequence[str], rows: Sequence[Row], footer: Sequence[str], title: str, *, wide: bool
) -> None:
    """Print rows of any columns, as a free query has them: all columns
    stay. Rows wider than the terminal are printed one by one."""
    columns = [Column(name, _getter(name)) for name in names]
    texts = [Texts(one.title, [shown(one.cell(row)) for row in rows]) for one in columns]
    room = terminal_width()
    taken = sum(widths(texts, room, len(GAP))) + len(GAP) * (len(names) - 1)
    if wide or room is None or taken <= room or not rows:
        return print_table(columns, rows, footer, title=title, wide=wide)
    for number, row in enumerate(rows):
        last = number == len(rows) - 1
        print_one(row, f"row {number + 1:,}", footer if last else (), verbatim=True)


def _getter(name: str) -> Callable[[Row], Any]:
    return lambda row: row.get(name)


def print_one(row: Row, title: str, footer: Sequence[str], *, verbatim: bool = False) -> None:
    """Print one row as lines of name and value; ``verbatim``: the names are those of columns, to be used again."""
    room = terminal_width()
    left = max((length(name) for name in row), default=0) + 3
    lines = [styled(inert(title), BOLD)] if title else []
    for name, value in row.items():
        values = value if isinstance(value, list) and value else [value]
        head = name if verbatim else name.replace("_", " ")
        for part in map(shown, values):
            for text in wrapped(part, None if room is None else max(room - left, 20)):
                lines.append(styled(head.ljust(left), DIM) + styled(text, part.style))
                head = ""
    print_lines([*lines, *_footer(footer, room)])


def print_lines(lines: Sequence[str]) -> None:
    """Print finished lines."""
    sys.stdout.write("".join(line + "\n" for line in lines))
    sys.stdout.flush()


def shown(value: Any) -> Cell:
    """A value for people: thousands apart, empty as a dash."""
    if isinstance(value, Cell):
        return Cell(inert(opened(str(value))), value.kind, value.style)
    value = opened(value)
    if value is None or value == "":
        return Cell("–", "", DIM)
    if isinstance(value, bool):
        return Cell("yes" if value else "no")
    if isinstance(value, int):
        return Cell(f"{value:,}", "figure")
    if isinstance(value, float):
        return Cell(f"{value:,.2f}", "figure")
    if isinstance(value, Mapping):
        return Cell(inert("  ".join(f"{k}={v}" for k, v in value.items())), "words")
    if isinstance(value, list | tuple):
        return Cell(inert(", ".join(map(str, value))) or "–", "words")
    text = inert(str(value))
    return Cell(text, "words" if " " in text else "name")


def terminal_width() -> int | None:
    """The width of the terminal of this output; None without one."""
    if asker_width is not None:
        return asker_width
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def styled(text: str, style: str) -> str:
    """``text`` in a style, where the output is a terminal and NO_COLOR is not set."""
    is_terminal = asker_width is not None or sys.stdout.isatty()
    if not (style and text and is_terminal) or environment().get("NO_COLOR"):
        return text
    return f"\x1b[{style}m{text}\x1b[0m"


def _lines(row: Sequence[tuple[Cell, int, bool]], is_total: bool) -> list[str]:
    parts = [fitted(cell, width) for cell, width, _ in row]
    lines = []
    for number in range(max(map(len, parts), default=0)):
        line = []
        for part, (cell, width, is_right) in zip(parts, row, strict=True):
            text = part[number] if number < len(part) else ""
            blanks = pad("", width - length(text), False)
            text_ = styled(text, BOLD if is_total else cell.style)
            line.append(blanks + text_ if is_right else text_ + blanks)
        lines.append(GAP.join(line).rstrip())
    return lines


def _footer(footer: Sequence[str], room: int | None) -> list[str]:
    return [styled(part, DIM) for line in footer for part in wrapped(inert(line), room)]
