"""Published packing policies: each scores nodes for a kind of pod and chooses the card of a share.

Source: the plugins of hkust-adsl/kubernetes-scheduler-simulator as run in Weng et al., "Beware of Fragmentation",
USENIX ATC 2023; docs/scheduling.md, "GPU packing".
"""

from __future__ import annotations

from typing import ClassVar, Protocol

import numpy as np

from reactors.scheduling.columns.card_columns import MOST_COUNTED, SHARE
from reactors.scheduling.columns.cards import WHOLE
from reactors.scheduling.columns.pod_shapes import Shape
from reactors.scheduling.columns.table import CPU, Columns, Ints
from reactors.scheduling.packing.fragmentation import Fragmentation, levels, trial

#: Largest node of the trace.
MOST_CPU, MOST_GPU = 128_000, 8_000


class Policy(Protocol):
    """The scores of nodes, and the card of a node for a share."""

    name: ClassVar[str]

    def score(self, shape: Shape, rows: Ints) -> Ints:
        """A score of each of ``rows``, all of them fitting. It is kept until the row changes."""

    def rank(self, shape: Shape, rows: Ints, scores: Ints) -> Ints:
        """The final score of each fitting node, 0 to 100."""

    def card(self, shape: Shape, row: int, chance: int) -> int:
        """The card of a node for a share; ``chance`` is a large number for drawing one."""


class Simple:
    """A policy with final scores. It puts shares on the card with the least sufficient room."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns

    def score(self, shape: Shape, rows: Ints) -> Ints:
        """All nodes are equal."""
        return np.zeros(rows.size, np.int64)

    def rank(self, shape: Shape, rows: Ints, scores: Ints) -> Ints:
        """As scored."""
        return scores

    def card(self, shape: Shape, row: int, chance: int) -> int:
        """The fullest one with room, the first of several."""
        cards = self.columns.cards.each[row]
        return int(np.where(cards >= shape.milli, cards, WHOLE + 1).argmin())


class FirstFit(Simple):
    """The first fitting node: a profile with it takes the first of several equal ones."""

    name: ClassVar[str] = "FirstFit"


class Random(Simple):
    """Any fitting node, and any fitting card of it: a profile with it draws one of several equal ones."""

    name: ClassVar[str] = "Random"

    def card(self, shape: Shape, row: int, chance: int) -> int:
        """Any with room."""
        fitting = np.flatnonzero(self.columns.cards.each[row] >= shape.milli)
        return int(fitting[chance % fitting.size])


class DotProd(Simple):
    """Nodes with the smallest product of their free cores and cards with the request."""

    name: ClassVar[str] = "DotProd"

    def score(self, shape: Shape, rows: Ints) -> Ints:
        """100 less half of the product."""
        cpu = self.columns.resources.free[rows, CPU] * shape.cpu_milli / MOST_CPU**2
        gpu = self.columns.cards.idle[rows] * shape.total / MOST_GPU**2
        return np.asarray(100 * (1 - (cpu + gpu) / 2)).astype(np.int64)


class GpuClustering(Simple):
    """Nodes of pods with the same number of cards."""

    name: ClassVar[str] = "GpuClustering"

    def score(self, shape: Shape, rows: Ints) -> Ints:
        """Fuller nodes of the same kind first."""
        if not shape.cards:
            return np.zeros(rows.size, np.int64)
        kinds = self.columns.cards.kinds[rows]
        same = kinds[:, SHARE if shape.is_share else min(shape.cards, MOST_COUNTED)] > 0
        several = (kinds > 0).sum(axis=1) > 1
        empty = kinds.sum(axis=1) == 0
        base = np.select((same & ~several, same, empty), (75, 50, 25), 0)
        filled = 25 * (MOST_GPU - self.columns.cards.idle[rows]) // MOST_GPU
        return np.asarray(base + filled)


class GpuPacking(Simple):
    """Used cards before idle cards, idle cards of used nodes before idle nodes."""

    name: ClassVar[str] = "GpuPacking"

    def score(self, shape: Shape, rows: Ints) -> Ints:
        """Up to 100 on used cards, up to 50 on idle ones, up to 33 on idle nodes."""
        if not shape.cards:
            return np.zeros(rows.size, np.int64)
        cards = self.columns.cards.each[rows]
        count = (cards >= 0).sum(axis=1)
        whole = (cards == WHOLE).sum(axis=1)
        fitting = np.sort(np.where(cards >= shape.milli, cards, WHOLE + 1), axis=1)
        chosen = fitting[:, : shape.cards]
        idle = (chosen == WHOLE).sum(axis=1)
        used = np.maximum(100 - chosen.sum(axis=1) // 10 // 10, 50)
        found = np.where(idle > 0, np.maximum(50 - idle, 33), used)
        return np.asarray(np.where(whole == count, np.maximum(33 - count, count), found))


class BestFit(Simple):
    """Nodes with the least left over."""

    name: ClassVar[str] = "BestFit"

    def score(self, shape: Shape, rows: Ints) -> Ints:
        """100 less the room left, cores and cards alike."""
        cpu = 0.5 * (self.columns.resources.free[rows, CPU] - shape.cpu_milli) / MOST_CPU
        gpu = 0.5 * (self.columns.cards.idle[rows] - shape.total) / MOST_GPU
        return np.asarray(100 * (1 - (cpu + gpu))).astype(np.int64)

    def rank(self, shape: Shape, rows: Ints, scores: Ints) -> Ints:
        """Stretched to 0 to 100, in whole numbers."""
        lowest, highest = int(scores.min()), int(scores.max())
        if lowest == highest:
            return scores
        return (scores - lowest) * 100 // (highest - lowest)


class FragmentationGradient(Simple):
    """FGD: the nodes, and cards, least fragmented by the pod."""

    name: ClassVar[str] = "FGD"

    def __init__(self, columns: Columns, fragmentation: Fragmentation) -> None:
        super().__init__(columns)
        self._fragmentation = fragmentation

    def score(self, shape: Shape, rows: Ints) -> Ints:
        """The smallest increase of fragmentation, on the best card."""
        return np.asarray(self._by_card(shape, rows).max(axis=1))

    def card(self, shape: Shape, row: int, chance: int) -> int:
        """The first card with the least change."""
        return int(self._by_card(shape, np.array((row,), np.int64))[0].argmax())

    def _by_card(self, shape: Shape, rows: Ints) -> Ints:
        tried = trial(self.columns, shape, rows)
        found = np.full((rows.size, self.columns.cards.each.shape[1]), -1, np.int64)
        found[tried.at, tried.card] = levels(self._fragmentation.change(shape, tried))
        return found
