"""GpuCards: nodes need cards with room for the pod; a packing policy scores them and chooses the cards.

A share of a card is on one card; whole cards are idle ones, and parts of several cards are on the first of the node's cards with
the room. A profile names it, with the policy; the default profile does not.

Source: docs/scheduling.md, "GPU packing".
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import ClassVar

import msgspec
import numpy as np

from reactors.scheduling.columns import cards
from reactors.scheduling.columns.arrivals import Lesson
from reactors.scheduling.columns.pod_shapes import Shape, shape_of
from reactors.scheduling.columns.table import Columns, Ints, Rows, is_by_claim
from reactors.scheduling.framework.contract import (
    DEVICES,
    HIGHEST,
    LOWEST,
    ONE_CHANGE,
    PACKER,
    Cycle,
    Refused,
)
from reactors.scheduling.framework.seeds import seed
from reactors.scheduling.packing.catalogue import POLICIES, Given, Name, Typical
from reactors.scheduling.packing.learned import LearnedPolicy
from reactors.scheduling.packing.policies import Policy
from reactors.scheduling.queueing.hints import Hint

REASON = "node(s) had no GPU cards with enough room"
_NONE = Lesson(0, {})


class _Table(msgspec.Struct, frozen=True, eq=False):
    """A packing policy over the columns, and its input."""

    plugin: GpuCards
    described: int
    layout: int
    lesson: Lesson
    policy: Policy
    #: Bytes of the largest card: a request in bytes is the smallest part of it.
    memory: int


class GpuCards(msgspec.Struct, frozen=True):
    """Packs GPU pods by a policy. ``typical``: of FGD, the pods to pack for; none = the arrived ones."""

    name: ClassVar[str] = "GpuCards"
    is_local: ClassVar[bool] = True
    helped_by: ClassVar[frozenset[Hint]] = frozenset({Hint.NODE, Hint.GONE})

    policy: Name = "Learned"
    typical: tuple[Typical, ...] = ()
    learned: LearnedPolicy = LearnedPolicy()

    def key(self, cycle: Cycle) -> Hashable:
        """The lesson and the nodes' own reports: both change scores of every node."""
        table = self._table(cycle.columns)
        goes_by = self.policy in ("FGD", "Learned") or cards.bytes_of(cycle.pod) > 0
        return table.lesson.number, table.described if goes_by else 0

    def pre_filter(self, cycle: Cycle) -> None:
        """Announce the packing plugin to the plugin with the closer check of parts of cards."""
        cycle.data[PACKER] = self

    def filter(self, cycle: Cycle, rows: Rows) -> Sequence[Refused]:
        """Nodes with too few cards with room."""
        shape = self._shape(cycle)
        # DeviceShare's own answer about room is more exact.
        if not shape.cards or DEVICES in cycle.data:
            return ()
        idle = cycle.columns.cards.each
        lacking = (idle[rows] >= shape.milli).sum(axis=1) < shape.cards
        if not lacking.any():
            return ()
        never = (idle[rows] >= 0).sum(axis=1) < shape.cards
        return (Refused(REASON, lacking, never),)

    def distance(self, cycle: Cycle) -> int:
        """The same for every node."""
        return ONE_CHANGE

    def remedy(self, cycle: Cycle, row: int) -> str:
        """Room on cards. Free cards do not help if claims give them."""
        if is_by_claim(cycle.columns, cycle.pod, row):
            return ""
        shape = self._shape(cycle)
        if shape.is_share:
            return f"free {shape.milli // 10} % of a card of node {cycle.columns.names[row]}"
        return f"free {shape.cards} whole cards of node {cycle.columns.names[row]}"

    def pre_score(self, cycle: Cycle, rows: Rows) -> None:
        """Remember the fitting nodes: a policy may rank them."""
        cycle.data[f"{self.name}/rows"] = rows

    def score(self, cycle: Cycle, rows: Rows) -> Ints:
        """The policy's scores."""
        at = np.arange(len(cycle.columns.nodes))[rows] if isinstance(rows, slice) else rows
        return self._table(cycle.columns).policy.score(self._shape(cycle), at)

    def normalize(self, cycle: Cycle, scores: Ints) -> Ints:
        """The policy's rank of the fitting nodes."""
        policy = self._table(cycle.columns).policy
        found = policy.rank(self._shape(cycle), cycle.data[f"{self.name}/rows"], scores)
        return np.clip(found, LOWEST, HIGHEST)

    def cards(self, cycle: Cycle, row: int) -> tuple[int, ...]:
        """The card of a share by the policy, else the first ones with the room."""
        shape = self._shape(cycle)
        if not shape.is_share:
            free = np.flatnonzero(cycle.columns.cards.each[row] >= shape.milli)
            return tuple(free[: shape.cards].tolist())
        chance = seed(cycle.pod.uid, row)
        return (self._table(cycle.columns).policy.card(shape, row, chance),)

    def card(self, cycle: Cycle, row: int, fitting: Sequence[int]) -> int:
        """The card of a share by the policy, among those with room by closer rules; -1 = it knows none of these."""
        shape, columns = self._shape(cycle), cycle.columns
        known = columns.cards.each[row].copy()
        there = [card for card in fitting if card < known.size and known[card] >= shape.milli]
        if not shape.is_share or not there:
            return -1
        policy, chance = self._table(columns).policy, seed(cycle.pod.uid, row)
        found = policy.card(shape, row, chance)
        if found in there:
            return found
        others = np.ones(known.size, np.bool_)
        others[there] = False
        # Its first choice has no room by these rules: the best of the others.
        columns.cards.each[row, others] = -1
        try:
            return policy.card(shape, row, chance)
        finally:
            columns.cards.each[row] = known

    def _shape(self, cycle: Cycle) -> Shape:
        found: Shape | None = cycle.data.get(self.name)
        if found is None:
            # The node's cards determine the part for a request in bytes, so another plugin has to find those with the room.
            is_exact = DEVICES in cycle.data and cards.bytes_of(cycle.pod) > 0
            found = shape_of(cycle.pod, self._table(cycle.columns).memory if is_exact else 0)
            cycle.data[self.name] = found
        return found

    @property
    def learns(self) -> bool:
        """Whether it uses the arrived pods."""
        return self.policy == "Learned" or (self.policy == "FGD" and not self.typical)

    def _table(self, columns: Columns) -> _Table:
        lesson = columns.facts.learned().lesson if self.learns else _NONE
        known: _Table | None = columns.tables.get(self.name)
        if (
            known is None
            or known.plugin is not self
            or known.lesson is not lesson
            or known.described != columns.described
            or known.layout != columns.layout
        ):
            given = Given(columns, lesson, self.typical, self.learned)
            policy = POLICIES[self.policy](given)
            memory = max((cards.memory_of(one.allocatable) for one in columns.nodes), default=0)
            known = _Table(self, columns.described, columns.layout, lesson, policy, memory)
            columns.tables[self.name] = known
        return known
