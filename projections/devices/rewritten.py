"""Partly rewritten rows of a claim's cards: where other claims changed beside it.

Source: docs/devices.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import msgspec

from projections.devices.cards import HELD, CardPiece
from projections.devices.holding import OPEN
from projections.engine.changes import Columns
from projections.engine.contract import Key

#: (first second, last second), in order and apart, by card with its cluster
Windows = Mapping[Key, Sequence[tuple[int, int]]]

#: Where these stand in a row of :data:`projections.devices.shape.card_segments`.
_CARD, _KIND, _FROM, _TO, _SINCE, _CLUSTER, _SEQUENCE = 2, 3, 5, 6, 7, 8, -1


def inside(piece: CardPiece, windows: Windows) -> Iterator[CardPiece]:
    """The parts of a piece in ``windows``."""
    for a, b in windows.get((piece.use.claim.cluster, piece.card), ()):
        from_s, to_s = max(a, piece.from_s), min(b, piece.to_s)
        if from_s < to_s:
            yield msgspec.structs.replace(piece, from_s=from_s, to_s=to_s)


def outside(row: Columns, windows: Windows) -> Iterator[Columns]:
    """The parts of a stored row outside all of ``windows``."""
    from_s, to_s = row[_FROM], OPEN if row[_TO] is None else row[_TO]
    for a, b in windows.get((row[_CLUSTER], row[_CARD]), ()):
        if from_s < min(a, to_s):
            yield _between(row, from_s, min(a, to_s))
        from_s = max(from_s, b)
    if from_s < to_s:
        yield _between(row, from_s, to_s)


def joined(rows: Iterable[Columns], sequence: int) -> Iterator[Columns]:
    """Rows of one claim: consecutive equal ones are one."""

    def spanned(row: Columns) -> tuple[Any, ...]:
        since_s = None if row[_KIND] == HELD else row[_SINCE]
        return (*row[:_FROM], since_s, *row[_SINCE + 1 : _SEQUENCE])

    ordered = sorted(rows, key=lambda row: (repr(spanned(row)), row[_FROM]))
    for _, together in groupby(ordered, spanned):
        kept: Columns | None = None
        for row in together:
            if kept is not None and kept[_TO] == row[_FROM]:
                kept = (*kept[:_TO], row[_TO], *kept[_TO + 1 :])
                continue
            if kept is not None:
                yield (*kept[:_SEQUENCE], sequence)
            kept = row
        if kept is not None:
            yield (*kept[:_SEQUENCE], sequence)


def _between(row: Columns, from_s: int, to_s: int) -> Columns:
    since_s = from_s if row[_KIND] == HELD else row[_SINCE]
    return (*row[:_FROM], from_s, None if to_s == OPEN else to_s, since_s, *row[_SINCE + 1 :])
