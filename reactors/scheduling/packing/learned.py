"""The learned packing policy: FGD, with prices for room wasted or scarce by the record of arrived pods.

It learns four things from the arrived pods (a lesson), and nothing from future pods:

- the typical pods, like FGD from the whole trace;
- cores for a card: idle cards without enough idle cores on their node are stranded;
- the worth of the room left on a card (``patterns``);
- nodes selected by more demand than they have cards: a pod on one pays for it.

The first pod selecting a rare model may come after other pods have taken all of its cards. So once any pods select nodes, a small
part of the demand is taken to select every model, before a pod has selected it.

Source: docs/scheduling.md, "GPU packing".
"""

from __future__ import annotations

from typing import ClassVar

import msgspec
import numpy as np

from reactors.scheduling.columns.arrivals import Lesson
from reactors.scheduling.columns.cards import WHOLE
from reactors.scheduling.columns.pod_shapes import Kind, Shape, selecting, typical_kinds
from reactors.scheduling.columns.selectors import required_nodes
from reactors.scheduling.columns.table import CPU, Bools, Columns, Ints
from reactors.scheduling.packing.fragmentation import (
    CardTrial,
    Floats,
    Fragmentation,
    levels,
    trial,
)
from reactors.scheduling.packing.patterns import STEP, UNITS, room_values

#: Parts of a thousandth of a card in the units of scores.
PARTS = 2**16
#: Most selections of nodes with a price: those with the most demand.
MOST_SELECTIONS = 64


class LearnedPolicy(msgspec.Struct, frozen=True):
    """The learned policy's weights. Fragmentation has weight 1."""

    #: A stranded thousandth of a card.
    stranded: float = 1.0
    #: A wasted thousandth of a card's room.
    wasted: float = 10.0
    #: A thousandth of a card of nodes selected as much as they have idle cards.
    scarce: float = 2.0
    #: Part of all demand selecting each GPU model, in addition to the pods' selections, once any pods select nodes.
    unseen: float = 0.01


def reachable(columns: Columns, kinds: list[Kind]) -> Bools:
    """[kinds x nodes]: the nodes allowed by the terms of each kind."""
    found = np.ones((len(kinds), len(columns.nodes)), np.bool_)
    for at, (_, _, _, selections) in enumerate(kinds):
        for one in selections:
            mask = required_nodes(selecting(one), columns)
            if mask is not None:
                found[at] &= mask
    return found


class Learned:
    """Scores by one lesson."""

    name: ClassVar[str] = "Learned"

    def __init__(self, columns: Columns, lesson: Lesson, policy: LearnedPolicy) -> None:
        self.columns, self.policy = columns, policy
        typical = typical_kinds(lesson.kinds)
        reached = reachable(columns, [kind for kind, _ in typical])
        self._fragmentation = Fragmentation(columns, typical, reached)
        shares: dict[int, int] = {}
        demand: dict[str, int] = {}
        cores = milli = 0
        for (cpu, size, cards, selections), count in lesson.kinds.items():
            if cards == 1 and size < WHOLE:
                shares[size] = shares.get(size, 0) + count
            cores += cpu * count if cards else 0
            milli += cards * size * count
            for one in selections:
                demand[one] = demand.get(one, 0) + cards * size * count
        #: Cores for a thousandth of a card, 0 = unknown.
        self._cores = cores / milli if milli else 0.0
        # The waste of each room, not its worth.
        values = room_values(shares)
        self._room: Ints = np.arange(UNITS + 1) * STEP - values
        #: The worth of a card's room, by its idle thousandths. A missing card, -1, has the last worth: nothing.
        self._worth: Ints = np.append(values[np.arange(WHOLE + 1) // STEP], 0)
        most = sorted(demand, key=lambda one: (-demand[one], one))[:MOST_SELECTIONS]
        self._selected = reachable(columns, [(0, 0, 1, (one,)) for one in most])
        #: Of all demand, the part of each selection.
        self._wanted: Floats = np.array([demand[one] / milli for one in most], np.float64)

    def score(self, shape: Shape, rows: Ints) -> Ints:
        """The gain by a pod on its best card, in parts of thousandths of cards, without scarcity."""
        changes, cards = self._by_card(shape, rows)
        found = changes[np.arange(rows.size), cards]
        return np.rint(found * PARTS).astype(np.int64)

    def card(self, shape: Shape, row: int, chance: int) -> int:
        """The card with the largest gain by a share."""
        return int(self._by_card(shape, np.array((row,), np.int64))[1][0])

    def rank(self, shape: Shape, rows: Ints, scores: Ints) -> Ints:
        """Levels of 0 to 100, after the price of the node's cards."""
        changes: Floats = scores / PARTS
        if shape.total and self._wanted.size:
            prices = self._prices()[rows] * (self.policy.scarce * shape.total)
            changes = changes - prices
        return levels(changes)

    def _by_card(self, shape: Shape, rows: Ints) -> tuple[Floats, Ints]:
        """([nodes x cards]: the gain, the best card of each)."""
        tried = trial(self.columns, shape, rows)
        change = self._fragmentation.change(shape, tried)
        change = change + self.policy.stranded * self._fed(shape, tried)
        if shape.is_share:
            units = tried.room // STEP
            left = (tried.room - shape.milli) // STEP
            change = change + self.policy.wasted * (self._room[units] - self._room[left])
        size = rows.size, self.columns.cards.each.shape[1]
        by_card, changes = np.full(size, -1, np.int64), np.zeros(size)
        by_card[tried.at, tried.card] = levels(change)
        changes[tried.at, tried.card] = change
        return changes, by_card.argmax(axis=1)

    def _fed(self, shape: Shape, tried: CardTrial) -> Floats:
        """The decrease of idle cards without cores, in thousandths."""
        if not self._cores:
            return np.zeros(tried.at.size)
        columns, rows = self.columns, tried.rows
        idle, cpu = columns.cards.idle[rows], columns.resources.free[rows, CPU]
        before = np.maximum(0, idle - cpu / self._cores)
        after = np.maximum(0, idle - shape.total - (cpu - shape.cpu_milli) / self._cores)
        return np.asarray(before - after)[tried.at]

    def _prices(self) -> Floats:
        """The scarcity of the idle cards of each node.

        For each requested selection of nodes: the share of all demand with this selection, divided by the share of all idle room
        on the selected nodes, by the worth of that room. The same for each GPU model and the demand not observed yet.
        """
        idle: Ints = self._worth.take(self.columns.cards.each.T, mode="wrap").sum(axis=0)
        total = int(idle.sum())
        prices: Floats = np.zeros(idle.size)
        # One after the other, for one order of the sum.
        for selected, part in zip(self._selected, self._wanted, strict=True):
            among = int(idle[selected].sum())
            if among:
                prices[selected] += part * total / among
        models = self.columns.labels.model
        among_model = np.bincount(models, idle)[models]
        unseen = self.policy.unseen * total / np.maximum(among_model, 1)
        return np.asarray(prices + np.where((models > 0) & (among_model > 0), unseen, 0.0))
