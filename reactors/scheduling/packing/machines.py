"""GPU nodes as columns of integers in the order in which ties go, and what one kind of pod asks of them.

Source: docs/scheduling.md, "GPU packing".
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from reactors.scheduling.cards import WHOLE, WIDTH
from reactors.scheduling.columns import Bools, Ints

#: Pods that a node of the trace takes.
MOST_PODS = 1001
#: Column of ``Machines.kinds`` for each number of cards; shares come first.
SHARE, KINDS = 0, WIDTH + 1


class Machine(msgspec.Struct, frozen=True):
    """What a node offers."""

    name: str
    cpu_milli: int
    memory_mib: int
    cards: int
    model: str


class Shape(msgspec.Struct, frozen=True):
    """What a pod asks for: ``milli`` of each of ``cards`` cards. Pods of one shape are equal to a policy."""

    cpu_milli: int
    memory_mib: int
    cards: int = 0
    milli: int = 0
    #: Models that will do; none = any.
    models: tuple[str, ...] = ()

    @property
    def is_share(self) -> bool:
        """Whether it takes part of one card."""
        return self.cards == 1 and self.milli < WHOLE

    @property
    def total(self) -> int:
        """Thousandths of cards, in all."""
        return self.cards * self.milli


class Placement(msgspec.Struct, frozen=True):
    """A node's row and the cards that a pod holds there."""

    row: int
    cards: tuple[int, ...] = ()


class Machines:
    """What is free on each node. Policies read it, ``place`` alone changes it."""

    def __init__(self, machines: Sequence[Machine]) -> None:
        self.names = [one.name for one in machines]
        self.models = sorted({one.model for one in machines})
        count = len(machines)
        self.cpu: Ints = np.array([one.cpu_milli for one in machines], np.int64)
        self.memory: Ints = np.array([one.memory_mib for one in machines], np.int64)
        self.model: Ints = np.array([self.models.index(one.model) for one in machines], np.int64)
        #: [nodes x 8]: idle thousandths; -1 = the node has no such card.
        self.cards: Ints = np.full((count, WIDTH), -1, np.int64)
        for row, one in enumerate(machines):
            self.cards[row, : one.cards] = WHOLE
        #: Idle thousandths of each node, and what it began with.
        self.idle: Ints = np.maximum(self.cards, 0).sum(axis=1)
        self.capacity = int(self.idle.sum())
        self.pods: Ints = np.zeros(count, np.int64)
        #: [nodes x kinds]: GPU pods by the number of their cards; shares by themselves.
        self.kinds: Ints = np.zeros((count, KINDS), np.int64)
        #: The row of each placement, in order: what was computed before an entry may be stale for its row.
        self.log: list[int] = []

    def allowed(self, models: Sequence[str]) -> Bools:
        """Which of ``self.models`` will do."""
        return np.array([not models or one in models for one in self.models], np.bool_)

    def fits(self, shape: Shape, rows: Ints) -> Bools:
        """Which of ``rows`` have room."""
        found = (
            (self.cpu[rows] >= shape.cpu_milli)
            & (self.memory[rows] >= shape.memory_mib)
            & (self.pods[rows] < MOST_PODS)
        )
        if shape.cards:
            found &= (self.cards[rows] >= shape.milli).sum(axis=1) >= shape.cards
            if shape.models:
                found &= self.allowed(shape.models)[self.model[rows]]
        return found

    def place(self, shape: Shape, row: int, card: int) -> Placement:
        """Take a pod's room: of a share on ``card``, of whole cards on the first idle ones."""
        found: tuple[int, ...] = ()
        if shape.cards:
            free = np.flatnonzero(self.cards[row] == WHOLE)[: shape.cards]
            found = (card,) if shape.is_share else tuple(int(one) for one in free)
            self.cards[row, list(found)] -= shape.milli
            self.idle[row] -= shape.total
            self.kinds[row, SHARE if shape.is_share else shape.cards] += 1
        self.cpu[row] -= shape.cpu_milli
        self.memory[row] -= shape.memory_mib
        self.pods[row] += 1
        self.log.append(row)
        return Placement(row, found)

    def tightest(self, shape: Shape, rows: Ints) -> Ints:
        """The card with the least room that is enough for a share, the first of several; 0 for other pods."""
        if not shape.is_share:
            return np.zeros(rows.size, np.int64)
        cards = self.cards[rows]
        return np.asarray(np.where(cards >= shape.milli, cards, WHOLE + 1).argmin(axis=1))
