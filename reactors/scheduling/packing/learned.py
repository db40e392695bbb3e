"""The packing policy of our own: FGD, with prices for what the pods so far show to be wasted or scarce.

Of the pods that have arrived it learns four things, and nothing of the pods to come:

- the typical pods, as FGD has them from the whole trace;
- cores for a card: idle cards that the node's idle cores could not feed are stranded;
- what the room left on a card is worth (``patterns``);
- which models are wanted by name more than they are there: a pod that takes one pays for it.

Source: docs/scheduling.md, "GPU packing".
"""

from __future__ import annotations

from typing import ClassVar

import msgspec
import numpy as np

from reactors.scheduling.cards import WHOLE
from reactors.scheduling.columns import Ints
from reactors.scheduling.packing.fragmentation import (
    Floats,
    Fragmentation,
    Kind,
    Trial,
    kind_of,
    levels,
    trial,
    typical_pods,
)
from reactors.scheduling.packing.machines import Machines, Shape
from reactors.scheduling.packing.patterns import STEP, UNITS, room_values


class LearnedPolicy(msgspec.Struct, frozen=True):
    """Weights beside fragmentation, which counts 1."""

    #: A stranded thousandth of a card.
    stranded: float = 1.0
    #: A wasted thousandth of a card's room.
    wasted: float = 20.0
    #: A thousandth of a card of a model that is wanted by name as much as it is there.
    scarce: float = 2.0
    #: Pods between two looks at which models are scarce.
    prices_after: int = 100
    #: What is learned is renewed after this many pods, and then when their number has grown by ``growth``.
    first_after: int = 50
    growth: float = 1.3


class Learned:
    """Learns from each pod that arrives."""

    name: ClassVar[str] = "Learned"

    def __init__(self, machines: Machines, policy: LearnedPolicy | None = None) -> None:
        self.machines = machines
        self.policy = policy or LearnedPolicy()
        self._kinds: dict[Kind, int] = {}
        #: Thousandths of cards that were asked for, by models; of no card, cores with them.
        self._demand: dict[tuple[str, ...], int] = {}
        self._cores = self._milli = self._pods = 0
        self._learn_at = 1
        self._prices: Floats = np.zeros(len(machines.models))
        self._room: Ints = np.arange(UNITS + 1) * STEP
        self._fragmentation = Fragmentation(machines, ())

    def observe(self, shape: Shape) -> bool:
        """Count a pod that arrived. True = what was said of any node is void."""
        kind = kind_of(shape)
        self._pods += 1
        self._kinds[kind] = self._kinds.get(kind, 0) + 1
        if shape.cards:
            self._demand[shape.models] = self._demand.get(shape.models, 0) + shape.total
            self._cores += shape.cpu_milli
            self._milli += shape.total
        if self._pods % self.policy.prices_after == 0:
            self._prices = self._scarcity()
        if self._pods < self._learn_at:
            return False
        grown = int(self._pods * self.policy.growth)
        self._learn_at = max(self._pods + self.policy.first_after, grown)
        self._learn()
        return True

    def _learn(self) -> None:
        self._fragmentation = Fragmentation(self.machines, typical_pods(self._kinds))
        shares: dict[int, int] = {}
        for (_, milli, cards, _), count in self._kinds.items():
            if cards == 1 and milli < WHOLE:
                shares[milli] = shares.get(milli, 0) + count
        # What each room wastes, not what it is worth.
        self._room = np.arange(UNITS + 1) * STEP - room_values(shares)

    def _scarcity(self) -> Floats:
        """Of each model: the part of the demand that names it, to the part of the idle cards that it has."""
        machines, wanted = self.machines, np.zeros(len(self.machines.models))
        idle = np.bincount(machines.model, machines.idle, len(machines.models))
        for models, milli in self._demand.items():
            if models:
                among = np.where(machines.allowed(models), idle, 0)
                wanted += milli * among / max(1.0, among.sum())
        share = wanted / max(1, self._milli) * idle.sum()
        return np.asarray(np.where(idle > 0, share / np.maximum(idle, 1), 0))

    def score(self, shape: Shape, rows: Ints) -> tuple[Floats | Ints, Ints]:
        """What a pod makes better on its best card, in thousandths of cards: scarcity is not in it."""
        tried = trial(self.machines, shape, rows)
        change = self._fragmentation.change(shape, tried)
        change = change + self.policy.stranded * self._fed(shape, tried)
        if shape.is_share:
            units = tried.room // STEP
            left = (tried.room - shape.milli) // STEP
            change = change + self.policy.wasted * (self._room[units] - self._room[left])
        size = self.machines.cards[rows].shape
        by_card, changes = np.full(size, -1, np.int64), np.zeros(size)
        by_card[tried.at, tried.card] = levels(change)
        changes[tried.at, tried.card] = change
        cards = by_card.argmax(axis=1)
        return changes[np.arange(rows.size), cards], cards

    def _fed(self, shape: Shape, tried: Trial) -> Floats:
        """How many thousandths of idle cards fewer are without cores."""
        if not self._milli:
            return np.zeros(tried.at.size)
        machines, rows = self.machines, tried.rows
        cores = self._cores / self._milli
        idle, cpu = machines.idle[rows], machines.cpu[rows]
        before = np.maximum(0, idle - cpu / cores)
        after = np.maximum(0, idle - shape.total - (cpu - shape.cpu_milli) / cores)
        return np.asarray(before - after)[tried.at]

    def rank(self, shape: Shape, rows: Ints, scores: Floats) -> Floats | Ints:
        """Levels of 0 to 100, after the price of the model's cards."""
        prices = self._prices[self.machines.model[rows]] * (self.policy.scarce * shape.total)
        return levels(scores - prices)
