"""Published packing policies: each scores nodes for a kind of pod and chooses the card of a share.

Source: the plugins of hkust-adsl/kubernetes-scheduler-simulator as run in Weng et al., "Beware of Fragmentation",
USENIX ATC 2023; docs/scheduling.md, "GPU packing".
"""

from __future__ import annotations

from typing import ClassVar, Protocol

import numpy as np

from reactors.scheduling.cards import WHOLE
from reactors.scheduling.columns import Ints
from reactors.scheduling.packing.fragmentation import Floats, Fragmentation, levels, trial
from reactors.scheduling.packing.machines import SHARE, Machines, Shape

#: Largest node of the trace.
MOST_CPU, MOST_GPU = 128_000, 8_000


class Policy(Protocol):
    """How nodes are scored. What ``score`` says of a row is kept until that row changes."""

    name: ClassVar[str]

    def observe(self, shape: Shape) -> bool:
        """A pod arrived. True = what was kept is void."""

    def score(self, shape: Shape, rows: Ints) -> tuple[Floats | Ints, Ints]:
        """(score, card of a share) of each of ``rows``, which all fit."""

    def rank(self, shape: Shape, rows: Ints, scores: Floats) -> Floats | Ints:
        """The final score of each node that fits; the first of the highest is taken."""


class Simple:
    """A policy that learns nothing, whose scores are final, and that puts shares on the tightest card."""

    def __init__(self, machines: Machines) -> None:
        self.machines = machines

    def observe(self, shape: Shape) -> bool:
        """Nothing is learned."""
        return False

    def score(self, shape: Shape, rows: Ints) -> tuple[Floats | Ints, Ints]:
        """Score and tightest card."""
        return self.node_score(shape, rows), self.machines.tightest(shape, rows)

    def node_score(self, shape: Shape, rows: Ints) -> Ints:
        """All nodes are equal."""
        return np.zeros(rows.size, np.int64)

    def rank(self, shape: Shape, rows: Ints, scores: Floats) -> Floats | Ints:
        """As scored."""
        return scores


class FirstFit(Simple):
    """The first node that fits."""

    name: ClassVar[str] = "FirstFit"


class Random(Simple):
    """Any node that fits, and any card of it that fits."""

    name: ClassVar[str] = "Random"

    def __init__(self, machines: Machines, seed: int) -> None:
        super().__init__(machines)
        self._dice = np.random.default_rng(seed)

    def score(self, shape: Shape, rows: Ints) -> tuple[Floats | Ints, Ints]:
        """Zero, and a card by chance."""
        chances = self._dice.random((rows.size, self.machines.cards.shape[1]))
        chances[self.machines.cards[rows] < shape.milli] = -1
        return np.zeros(rows.size, np.int64), chances.argmax(axis=1)

    def rank(self, shape: Shape, rows: Ints, scores: Floats) -> Floats | Ints:
        """100 for one node by chance."""
        found = np.zeros(rows.size, np.int64)
        found[self._dice.integers(rows.size)] = 100
        return found


class DotProd(Simple):
    """Nodes whose free cores and cards have the smallest product with what is requested."""

    name: ClassVar[str] = "DotProd"

    def node_score(self, shape: Shape, rows: Ints) -> Ints:
        """100 less half of the product."""
        cpu = self.machines.cpu[rows] * shape.cpu_milli / MOST_CPU**2
        gpu = self.machines.idle[rows] * shape.total / MOST_GPU**2
        return (100 * (1 - (cpu + gpu) / 2)).astype(np.int64)


class GpuClustering(Simple):
    """Nodes that hold pods with the same number of cards."""

    name: ClassVar[str] = "GpuClustering"

    def node_score(self, shape: Shape, rows: Ints) -> Ints:
        """Fuller nodes of the same kind first."""
        if not shape.cards:
            return np.zeros(rows.size, np.int64)
        kinds = self.machines.kinds[rows]
        same = kinds[:, SHARE if shape.is_share else shape.cards] > 0
        several = (kinds > 0).sum(axis=1) > 1
        empty = kinds.sum(axis=1) == 0
        base = np.select((same & ~several, same, empty), (75, 50, 25), 0)
        filled = 25 * (MOST_GPU - self.machines.idle[rows]) // MOST_GPU
        return np.asarray(base + filled)


class GpuPacking(Simple):
    """Used cards before idle cards, idle cards of used nodes before idle nodes."""

    name: ClassVar[str] = "GpuPacking"

    def node_score(self, shape: Shape, rows: Ints) -> Ints:
        """Up to 100 on used cards, up to 50 on idle ones, up to 33 on idle nodes."""
        if not shape.cards:
            return np.zeros(rows.size, np.int64)
        cards = self.machines.cards[rows]
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

    def node_score(self, shape: Shape, rows: Ints) -> Ints:
        """100 less what would be left, cores and cards alike."""
        cpu = 0.5 * (self.machines.cpu[rows] - shape.cpu_milli) / MOST_CPU
        gpu = 0.5 * (self.machines.idle[rows] - shape.total) / MOST_GPU
        return (100 * (1 - (cpu + gpu))).astype(np.int64)

    def rank(self, shape: Shape, rows: Ints, scores: Floats) -> Floats | Ints:
        """Stretched to 0 to 100, in whole numbers."""
        lowest, highest = int(scores.min()), int(scores.max())
        if lowest == highest:
            return scores
        return (scores.astype(np.int64) - lowest) * 100 // (highest - lowest)


class FragmentationGradient(Simple):
    """FGD: nodes, and cards, on which the pod fragments the least."""

    name: ClassVar[str] = "FGD"

    def __init__(self, machines: Machines, fragmentation: Fragmentation) -> None:
        super().__init__(machines)
        self._fragmentation = fragmentation

    def score(self, shape: Shape, rows: Ints) -> tuple[Floats | Ints, Ints]:
        """How little is fragmented more, on the first card for which that is least."""
        tried = trial(self.machines, shape, rows)
        found = np.full(self.machines.cards[rows].shape, -1, np.int64)
        found[tried.at, tried.card] = levels(self._fragmentation.change(shape, tried))
        return found.max(axis=1), found.argmax(axis=1)
