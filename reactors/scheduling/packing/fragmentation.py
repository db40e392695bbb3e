"""Fragmentation: idle cards of a node unusable for typical pods, and its change by a placement.

Sums are taken in a fixed order, so an unchanged value differs by exactly zero.

Source: Weng et al., "Beware of Fragmentation", USENIX ATC 2023; ``frag.go`` of hkust-adsl/kubernetes-scheduler-simulator for the
order of the sums; docs/scheduling.md, "GPU packing".
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from reactors.scheduling.columns.cards import WHOLE
from reactors.scheduling.columns.pod_shapes import Kind, Shape
from reactors.scheduling.columns.table import CPU, Bools, Columns, Ints

Floats: TypeAlias = npt.NDArray[np.float64]

#: By ``1 * enough cpu + 2 * enough cards`` (GPU pods), 6 and 7 (CPU-only), 8 (wrong node): the sum for an amount.
_SUM_OF = np.array((0, 1, 3, 1, 0, 0, 5, 4, 6), np.int64)
_SUMS, _SATISFIED, _INACCESSIBLE = 7, 3, 8


class CardTrial(msgspec.Struct, frozen=True):
    """A pod tried on nodes: each entry is one node before, or one node with the pod on one card."""

    rows: Ints
    #: Position in ``rows`` of each way to place the pod, the card of a share, and the idle part of that card.
    at: Ints
    card: Ints
    room: Ints


def trial(columns: Columns, shape: Shape, rows: Ints) -> CardTrial:
    """The ways to place a pod on ``rows``, all of them fitting: one for each card of a share, one for any other pod."""
    if shape.is_share:
        at, card = np.nonzero(columns.cards.each[rows] >= shape.milli)
        return CardTrial(rows, at, card, columns.cards.each[rows[at], card].astype(np.int64))
    at = np.arange(rows.size)
    return CardTrial(rows, at, np.zeros_like(at), np.full(rows.size, WHOLE, np.int64))


class Fragmentation:
    """Node fragmentation by typical kinds of pods and their parts. ``accessible``: [kinds x nodes], the nodes allowed for each."""

    def __init__(
        self, columns: Columns, typical: Sequence[tuple[Kind, float]], accessible: Bools
    ) -> None:
        self._columns = columns
        kinds = [kind for kind, _ in typical]
        self._sizes: Ints = np.array(
            sorted({milli for _, milli, _, _ in kinds} | {WHOLE}), np.int64
        )
        where = {int(size): at for at, size in enumerate(self._sizes)}
        self._size_of = np.array([where[milli] for _, milli, _, _ in kinds], np.int64)
        self._cpu: Ints = np.array([cpu for cpu, _, _, _ in kinds], np.int64)[:, None]
        self._cards: Ints = np.array([cards for _, _, cards, _ in kinds], np.int64)[:, None]
        self._part: Floats = np.array([part for _, part in typical], np.float64)[:, None]
        self._base: Ints = np.where(self._cards == 0, 4, 0)
        self._inaccessible: Bools | None = None if accessible.all() else ~accessible

    def change(self, shape: Shape, tried: CardTrial) -> Floats:
        """The decrease of fragmentation by the pod, for each way, in thousandths of cards."""
        columns, rows, at, sizes = self._columns, tried.rows, tried.at, self._sizes
        cards = columns.cards.each[rows].astype(np.int64)
        enough = cards[:, :, None] >= sizes
        counts = enough.sum(axis=1)
        idle = columns.cards.idle[rows]
        below = idle[:, None] - np.where(enough, cards[:, :, None], 0).sum(axis=1)
        taken, room = shape.cards, tried.room[:, None]
        left = room - shape.milli
        was, is_ = room >= sizes, left >= sizes
        after_counts = counts[at] + taken * (is_.astype(np.int64) - was)
        after_below = below[at] + taken * (np.where(is_, 0, left) - np.where(was, 0, room))
        cpu = columns.resources.free[rows, CPU]
        amounts = self._amounts(
            np.concatenate((cpu, cpu[at] - shape.cpu_milli)),
            np.concatenate((counts, after_counts)).T,
            np.concatenate((below, after_below)).T,
            np.concatenate((idle, idle[at] - shape.total)),
            np.concatenate((rows, rows[at])),
        )
        return amounts[: rows.size][at] - amounts[rows.size :]

    def total(self) -> float:
        """The fragmentation of all nodes, in thousandths of cards."""
        columns = self._columns
        cards = columns.cards.each.astype(np.int64)
        enough = cards[:, :, None] >= self._sizes
        below = columns.cards.idle[:, None] - np.where(enough, cards[:, :, None], 0).sum(axis=1)
        counts, rows = enough.sum(axis=1).T, np.arange(len(columns.nodes))
        found = self._amounts(
            columns.resources.free[:, CPU], counts, below.T, columns.cards.idle, rows
        )
        return float(found.sum())

    def _amounts(self, cpu: Ints, counts: Ints, below: Ints, idle: Ints, rows: Ints) -> Floats:
        """Fragmentation of nodes; ``counts`` and ``below`` are [sizes x nodes]."""
        enough_cards = counts[self._size_of] >= self._cards
        code = self._base + (cpu >= self._cpu) + 2 * enough_cards
        if self._inaccessible is not None:
            code = np.where(self._inaccessible[:, rows], _INACCESSIBLE, code)
        amount = np.where(code == _SATISFIED, below[self._size_of], idle) * self._part
        sums = _SUM_OF[code] + np.arange(cpu.size) * _SUMS
        # Adds in the order of the typical pods, sum by sum.
        found = np.bincount(sums.ravel(), amount.ravel(), _SUMS * cpu.size).reshape(-1, _SUMS)
        none, cards, cores, cpu_only, no_cpu, other = found[:, (0, 1, 3, 4, 5, 6)].T
        return np.asarray(none + cards + cores + cpu_only + no_cpu + other)


def levels(change: Floats) -> Ints:
    """A change in thousandths of cards as a score of 0 to 100 by the logistic curve; no change is 50."""
    return np.searchsorted(_LEVELS, change, side="right")


#: The score of no change.
_EVEN = 50


def _thresholds() -> Floats:
    """The smallest changes for a score of 1, 2, … 100: a table, since machines differ in the last bit of an exponential."""
    odds = [Decimal(level) / (100 - level) for level in range(1, 100)]
    found = [float(WHOLE * one.ln()) for one in odds]
    # The published scores are computed in floats: a smaller change counts as none, and one card of 37 whole ones is certain.
    found[_EVEN - 1] = -1.5 * 2.0**-52 * WHOLE
    return np.array([*found, 37.0 * WHOLE])


_LEVELS = _thresholds()
