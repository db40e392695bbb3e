"""An answer of many rows, in the requested format: columns for people, exact fields for programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from deploy.cli.rendering import Format
from deploy.cli.rendering.output import write
from deploy.cli.rendering.tables import Column, Row, print_table
from deploy.cli.rendering.words import duration, memory, thousandths


class AnswerOptions(Protocol):
    """The part of :class:`deploy.cli.options.CommandContext` with the format of an answer."""

    @property
    def output(self) -> Format:
        """How rows are written."""

    @property
    def is_wide(self) -> bool:
        """Whether a table shall have every column."""


def answer(
    asked: AnswerOptions,
    rows: Sequence[Row],
    *,
    fields: Sequence[str],
    columns: Sequence[Column],
    notes: Sequence[str] = (),
) -> None:
    """Write ``rows``: their exact ``fields``, or ``columns`` made of them, with notes on their basis below."""
    if asked.output is Format.TABLE:
        print_table(columns, rows, notes, wide=asked.is_wide)
    else:
        write(rows, asked.output, columns=fields)


def field(
    title: str, name: str = "", *, wide: bool = False, drop: int = 0, show: Any = None
) -> Column:
    """A column of one field; ``show`` puts it in words."""
    key = name or title.lower().replace("-", "_").replace(" ", "_")

    def cell(row: Row) -> Any:
        value = row.get(key)
        return value if show is None else show(value)

    is_figure = show in (duration, thousandths, memory)
    return Column(title, cell, wide=wide, drop=drop, is_figure=is_figure)


def count(title: str, name: str, *, drop: int = 0) -> Column:
    """A column of a whole number, with commas."""

    def cell(row: Row) -> str:
        return f"{row[name]:,}"

    return Column(title, cell, drop=drop, is_figure=True)
