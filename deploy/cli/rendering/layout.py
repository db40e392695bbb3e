"""Texts in columns: widths, shortened texts, broken lines, and columns without room. Pure."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

#: Least columns of a name, or of a sentence; ever fewer, before a line becomes too long.
ROOMY = {"name": 18, "words": 26}
LONGEST_LINE = 44
SNUG = {"name": 14, "words": 20}
#: Longest word that stays whole in a narrow table.
LONGEST_WORD = 24
TIGHT = {"name": 10, "words": 12}


class Cell(str):
    """A text to show, its kind, and its style.

    ``figure``: whole, on the right; ``fixed``: whole; ``name``: may be shortened in its middle; ``words``: may be broken
    between words.
    """

    kind: str
    style: str

    def __new__(cls, text: str, kind: str = "name", style: str = "") -> Cell:
        """A cell of a kind."""
        made = super().__new__(cls, text)
        made.kind, made.style = kind, style
        return made


@dataclass(frozen=True)
class Texts:
    """One column: its head and cells. Of those with ``drop``, the largest goes first."""

    head: str
    cells: Sequence[Cell]
    drop: int = 0

    @property
    def kind(self) -> str:
        """The kind of its cells; empty cells do not count."""
        kinds = {cell.kind for cell in self.cells}
        return next(
            (kind for kind in ("words", "name", "fixed", "figure") if kind in kinds), "name"
        )

    @property
    def natural(self) -> int:
        """The width of its whole text."""
        return max([length(self.head), *map(length, self.cells)])

    def least(self, rooms: dict[str, int], *, is_distinct: bool = False) -> int:
        """Its least width; with ``is_distinct`` different names stay different when shortened."""
        room = rooms.get(self.kind, self.natural)
        if self.kind == "words" and rooms is ROOMY:
            # A long sentence needs more, or its row becomes a tower.
            room = max(room, min(self.natural // 4, LONGEST_LINE))
        if self.kind == "words" and rooms is SNUG:
            longest = max(length(word) for cell in self.cells for word in cell.split(" "))
            room = max(room, min(longest, LONGEST_WORD))
        if self.kind == "name" and is_distinct:
            room = max(room, self._distinct(room))
        return min(self.natural, max(room, length(self.head)))

    def _distinct(self, room: int) -> int:
        """The least width from ``room`` on at which different names stay different when shortened."""
        names = {str(cell) for cell in self.cells if length(cell) > room}
        short = {str(cell) for cell in self.cells} - names
        return next(
            width
            for width in range(room, max(self.natural, room) + 1)
            if len({*short, *(cut(name, width) for name in names)}) == len(short) + len(names)
        )


def widths(columns: Sequence[Texts], room: int | None, gap: int) -> list[int]:
    """The width of each column; 0 for those without room. Without ``room`` all is shown."""
    if room is None:
        return [one.natural for one in columns]
    going = sorted((p for p, c in enumerate(columns) if c.drop), key=lambda p: -columns[p].drop)
    roomy = [(ROOMY, going[:count]) for count in range(len(going) + 1)]
    # Columns give way to distinct names, and sentences do not.
    tries = [(True, *one) for one in roomy]
    tries += [(False, *one) for one in (*roomy, (SNUG, going), (TIGHT, going))]
    for is_distinct, rooms, gone in tries:
        found = [
            0 if p in gone else one.least(rooms, is_distinct=is_distinct)
            for p, one in enumerate(columns)
        ]
        spare = room - sum(found) - gap * (sum(map(bool, found)) - 1)
        if spare >= 0:
            break
    for kind in ("name", "words"):
        short = [p for p, one in enumerate(columns) if found[p] and one.kind == kind]
        while spare > 0 and (short := [p for p in short if found[p] < columns[p].natural]):
            narrowest = min(short, key=lambda p: found[p])
            found[narrowest] += 1
            spare -= 1
    return found


def length(text: str) -> int:
    """The width of a text in columns of a terminal."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


def fitted(cell: Cell, width: int) -> list[str]:
    """The lines of a cell in a column of this width."""
    if cell.kind == "words":
        return [cut(line, width) for line in wrapped(cell, width)]
    return [cut(cell, width) if cell.kind == "name" else cell]


def cut(text: str, width: int) -> str:
    """A text shortened in its middle, where it is too long: both ends of a name tell it from others."""
    if length(text) <= width:
        return text
    head, tail = text[: (width + 1) // 2 - 1], text[len(text) - width // 2 :]
    while length(head) + length(tail) + 1 > width and (head or tail):
        head, tail = (head[:-1], tail) if len(head) >= len(tail) else (head, tail[1:])
    return f"{head}…{tail}"


def wrapped(text: str, width: int | None) -> list[str]:
    """A text in lines of this width, broken between words; a longer word has a line to itself."""
    if width is None or length(text) <= width:
        return [text]
    lines = [""]
    for word in text.split(" "):
        line = f"{lines[-1]} {word}" if lines[-1] else word
        if length(line) <= width or not lines[-1]:
            lines[-1] = line
        else:
            lines.append(word)
    return lines


def pad(text: str, width: int, is_right: bool) -> str:
    """A text with blanks on one side."""
    blanks = " " * (width - length(text))
    return blanks + text if is_right else text + blanks
