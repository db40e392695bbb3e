"""Idle cards of nodes as columns, one row for each node."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from projections.cluster import Pod
from reactors.scheduling.columns import cards
from reactors.scheduling.columns.nodes import Ints, SmallInts, moved

#: Column of ``kinds`` for pods with shares, and the most cards of one pod with a column of their own.
SHARE, MOST_COUNTED = 0, cards.WIDTH


class CardColumns:
    """The cards of nodes, and their idle parts."""

    def __init__(self) -> None:
        #: [nodes x cards]: idle thousandths of each card; -1 = the node has no such card.
        self.each: SmallInts = np.full((0, cards.WIDTH), -1, np.int32)
        #: Idle thousandths of all cards of the node.
        self.idle: Ints = np.zeros(0, np.int64)
        #: [nodes x kinds]: its pods with cards, by the number of their cards; pods with a share of a card by themselves.
        self.kinds: Ints = np.zeros((0, MOST_COUNTED + 1), np.int64)
        self._holding: list[dict[str, cards.Holding]] = []
        #: By row: how many cards the node offers, and bytes of each.
        self._offers: list[tuple[int, int]] = []

    def remove(self, row: int) -> None:
        """A node is gone; :meth:`move` follows."""
        del self._holding[row], self._offers[row]

    def insert(self, row: int) -> None:
        """A node came; :meth:`move` follows."""
        self._holding.insert(row, {})
        self._offers.insert(row, (0, 0))

    def move(self, order: npt.NDArray[np.intp], is_new: npt.NDArray[np.intp]) -> None:
        """The rows are in a new order; new rows are empty."""
        self.each = moved(self.each, order, is_new, -1)
        self.idle = moved(self.idle, order, is_new, 0)
        self.kinds = moved(self.kinds, order, is_new, 0)

    def describe(self, row: int, allocatable: Mapping[str, str]) -> None:
        """Write the cards of a node."""
        self._offers[row] = (cards.count_of(allocatable), cards.memory_of(allocatable))
        self._deal(row)

    def count(
        self, row: int, pod: Pod, request: tuple[int, int, int], on: tuple[int, ...], sign: int
    ) -> None:
        """Count a pod's cards on a node, or with ``sign`` -1 take them off. ``on``: the cards, if known."""
        count, milli, size = request
        self.kinds[row, SHARE if milli < cards.WHOLE else min(count, MOST_COUNTED)] += sign
        if sign > 0:
            self._holding[row][pod.uid] = cards.Holding(pod.started_us, count, milli, on, size)
        else:
            del self._holding[row][pod.uid]
        self._deal(row)

    def _deal(self, row: int) -> None:
        count, memory = self._offers[row]
        if count > self.each.shape[1]:
            more = np.full((len(self._offers), count - self.each.shape[1]), -1, np.int32)
            self.each = np.hstack((self.each, more))
        idle = cards.idle(count, self._holding[row], memory)
        self.each[row] = -1
        self.each[row, :count] = idle
        self.idle[row] = sum(idle)
