"""The output of answers: as a table for people, as JSON, YAML or CSV for programs.

Answers go to stdout, everything else to stderr. A table may have more than the rows (a title, notes below);
the other formats hold the rows and nothing else. Text comes from users of the cluster, so it is shown inert: CSV cells
cannot be formulas. Control and direction characters could move a terminal's cursor or turn a line around, so they are
written as escapes in every format.

Source: docs/wrong-input.md; OWASP ASVS 1.2.10 (CSV).
"""

from __future__ import annotations

import csv
import json
import logging
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from deploy.cli.rendering import Format
from deploy.cli.rendering.escapes import escaped_in, inert, inert_cell
from deploy.cli.rendering.user_names import opened

if TYPE_CHECKING:
    from deploy.cli.rendering.tables import Row

#: The first characters of a formula in a spreadsheet.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\0")

_tell: Callable[[str, int], bool] | None = None


def say(text: str, level: int = logging.INFO) -> None:
    """One line for people, on stderr; or of the log, where :func:`say_by` was told so."""
    if _tell is None or not _tell(text, level):
        print(inert(text), file=sys.stderr)


def say_by(tell: Callable[[str, int], bool]) -> None:
    """Send messages to ``tell`` first from now on; it returns False for a message it did not take."""
    global _tell
    _tell = tell


def as_json(value: Any) -> str:
    """A value as indented JSON, control and direction characters as escapes."""
    return escaped_in(json.dumps(value, ensure_ascii=False, indent=2))


def write(
    rows: Sequence[Row],
    format: Format,
    *,
    title: str = "",
    footer: Sequence[str] = (),
    columns: Sequence[str] | None = None,
    one: bool = False,
    wide: bool = False,
) -> None:
    """Write rows in a format. ``columns`` are their names in order, needed where there may be no row.

    With ``one`` the answer is a single object instead of a list of one. ``footer`` stands below tables only.
    With ``wide`` a table is as wide as it needs, on a terminal too.
    """
    names = list(columns or (rows[0] if rows else ()))
    rows = opened(rows)
    if format is Format.JSON:
        print(as_json(dict(rows[0]) if one else [dict(row) for row in rows]))
    elif format is Format.YAML:
        from deploy.cli.rendering.yaml_text import as_yaml

        sys.stdout.write(as_yaml(dict(rows[0]) if one else [dict(row) for row in rows]))
    elif format is Format.CSV:
        write_csv(names, ([row[name] for name in names] for row in rows), sys.stdout)
    elif one:
        from deploy.cli.rendering.tables import print_one

        print_one(rows[0], title, footer)
    else:
        from deploy.cli.rendering.tables import print_rows

        print_rows(names, rows, footer, title, wide=wide)
    sys.stdout.flush()


def write_csv(names: Sequence[str], rows: Iterable[Sequence[Any]], file: TextIO) -> None:
    """RFC 4180, with cells safe from any spreadsheet's formulas."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([cell(name) for name in names])
    for row in rows:
        writer.writerow([cell(value) for value in row])


def cell(value: Any) -> Any:
    """A value as an inert CSV cell: a text that could be a formula begins with an apostrophe.

    Numbers stay numbers, also negative ones. Control characters are written as escapes, except line ends and tabs.
    """
    if value is None:
        return ""
    if isinstance(value, bool | int | float):
        return value
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    # A spreadsheet reads a formula even after leading blanks.
    if text.startswith(_FORMULA) or text.lstrip(" \n\u00a0\ufeff").startswith(_FORMULA):
        text = "'" + text
    return inert_cell(text)


def warn_of_names(text: str, key: Path | None) -> None:
    """Warn about a text recorded unchanged, if names of users are under a key."""
    if text and key is not None:
        say(
            "warning: the reason is recorded in clear text, outside labels.user_key: it should name no user"
        )
