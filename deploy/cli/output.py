"""How answers are written: as a table for people, as JSON, YAML or CSV for programs.

Answers go to stdout, everything else to stderr. A table may say more than the rows (how it is titled, what stands below);
the other formats hold the rows and nothing else. Text comes from users of the cluster, so it is shown inert: CSV cells
cannot be formulas, control characters cannot move a terminal's cursor.

Source: ``reliability.md`` P37, G9; OWASP ASVS 1.2.10 (CSV).
"""

from __future__ import annotations

import csv
import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TextIO

import yaml
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from deploy.cli.options import Format

Row = Mapping[str, Any]

#: What makes a spreadsheet read a cell as a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\0")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


#: The same, but for what a quoted CSV cell may hold.
_UNPRINTABLE = re.compile(r"(?![\t\n])" + _CONTROL.pattern)


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Let the command end as at any other closed pipe."""
        raise BrokenPipeError


def console(stderr: bool = False) -> Console:
    """A console without colour where the output is no terminal or NO_COLOR is set, and wide where it is no terminal."""
    made = _Console(stderr=stderr, highlight=False, soft_wrap=False)
    if not made.is_terminal:
        # A pipe has no width: a row must stay a line.
        made = _Console(stderr=stderr, highlight=False, width=400, no_color=True, color_system=None)
    return made


def say(text: str) -> None:
    """One line for people, on stderr."""
    print(inert(text), file=sys.stderr)


def inert(text: str) -> str:
    """``text`` on one line, control and direction characters written as escapes."""
    return _CONTROL.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    return f"\\x{ord(found[0]):02x}"


def write(
    rows: Sequence[Row],
    format: Format,
    *,
    title: str = "",
    footer: Sequence[str] = (),
    columns: Sequence[str] | None = None,
    one: bool = False,
) -> None:
    """Write rows in a format. ``columns`` are their names in order, needed where there may be no row.

    With ``one`` the answer is a single object instead of a list of one. ``footer`` stands below tables only.
    """
    names = list(columns or (rows[0] if rows else ()))
    if format is Format.JSON:
        print(
            json.dumps(
                dict(rows[0]) if one else [dict(r) for r in rows], ensure_ascii=False, indent=2
            )
        )
    elif format is Format.YAML:
        value: Any = dict(rows[0]) if one else [dict(row) for row in rows]
        sys.stdout.write(yaml.safe_dump(value, sort_keys=False, allow_unicode=True))
    elif format is Format.CSV:
        write_csv(names, ([row[name] for name in names] for row in rows), sys.stdout)
    elif one:
        _write_one(rows[0], title, footer)
    else:
        _write_table(names, rows, title, footer)
    sys.stdout.flush()


def write_csv(names: Sequence[str], rows: Iterable[Sequence[Any]], file: TextIO) -> None:
    """RFC 4180, with cells that no spreadsheet takes for a formula."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([cell(name) for name in names])
    for row in rows:
        writer.writerow([cell(value) for value in row])


def cell(value: Any) -> Any:
    """A value as an inert CSV cell: a text that could be a formula begins with an apostrophe.

    Numbers stay numbers, also negative ones. Control characters but line ends and tabs are written as escapes.
    """
    if value is None:
        return ""
    if isinstance(value, bool | int | float):
        return value
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    # Leading blanks do not keep a spreadsheet from reading what follows as a formula.
    if text.startswith(_FORMULA) or text.lstrip(" \n\u00a0\ufeff").startswith(_FORMULA):
        text = "'" + text
    return _UNPRINTABLE.sub(_escaped, text)


def _write_table(
    names: Sequence[str], rows: Sequence[Row], title: str, footer: Sequence[str]
) -> None:
    out = console()
    table = Table(
        box=box.SIMPLE_HEAD, title=title or None, title_justify="left", title_style="bold",
        header_style="bold", pad_edge=False, show_edge=False,
    )  # fmt: skip
    for name in names:
        is_number = any(_is_number(row.get(name)) for row in rows)
        table.add_column(
            name.replace("_", " "), justify="right" if is_number else "left", no_wrap=is_number,
            overflow="fold",
        )  # fmt: skip
    for row in rows:
        table.add_row(*(shown(row.get(name)) for name in names))
    out.print(table)
    for line in footer:
        out.print(Text(inert(line), style="dim"))


def _write_one(row: Row, title: str, footer: Sequence[str]) -> None:
    out = console()
    if title:
        out.print(Text(inert(title), style="bold"))
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 3, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in row.items():
        values = value if isinstance(value, list) and value else [value]
        for number, part in enumerate(values):
            table.add_row("" if number else name.replace("_", " "), shown(part))
    out.print(table)
    for line in footer:
        out.print(Text(inert(line), style="dim"))


def shown(value: Any) -> Text:
    """A value as people read it: thousands apart, nothing as a dash."""
    if value is None or value == "":
        return Text("–", style="dim")
    if isinstance(value, bool):
        return Text("yes" if value else "no")
    if isinstance(value, int):
        return Text(f"{value:,}")
    if isinstance(value, float):
        return Text(f"{value:,.2f}")
    if isinstance(value, Mapping):
        return Text(inert("  ".join(f"{k}={v}" for k, v in value.items())))
    if isinstance(value, list | tuple):
        return Text(inert(", ".join(map(str, value))) or "–")
    return Text(inert(str(value)))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
