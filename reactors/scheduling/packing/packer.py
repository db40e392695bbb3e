"""Places pods one after the other by a policy. What the policy says of equal pods is kept until a node changes."""

from __future__ import annotations

import msgspec
import numpy as np

from reactors.scheduling.columns import Bools, Ints
from reactors.scheduling.packing.fragmentation import Floats
from reactors.scheduling.packing.machines import Machines, Placement, Shape
from reactors.scheduling.packing.policies import Policy


class _Kept(msgspec.Struct):
    """What is known of one shape up to an entry of the log of placements."""

    upto: int
    fits: Bools
    scores: Floats
    cards: Ints


class Packer:
    """Nodes and a policy."""

    def __init__(self, machines: Machines, policy: Policy) -> None:
        self.machines = machines
        self.policy = policy
        self._kept: dict[Shape, _Kept] = {}

    def place(self, shape: Shape) -> Placement | None:
        """Place a pod on its best node, the first of several that are equal; None where it fits nowhere."""
        if self.policy.observe(shape):
            self._kept.clear()
        kept = self._known(shape)
        rows = np.flatnonzero(kept.fits)
        if not rows.size:
            return None
        row = int(rows[self.policy.rank(shape, rows, kept.scores[rows]).argmax()])
        return self.machines.place(shape, row, int(kept.cards[row]))

    def _known(self, shape: Shape) -> _Kept:
        machines, kept = self.machines, self._kept.get(shape)
        if kept is None:
            count = len(machines.names)
            none = np.zeros(count, np.int64)
            kept = self._kept[shape] = _Kept(0, none > 0, np.zeros(count), none)
            rows = np.arange(count)
        else:
            rows = np.array(sorted(set(machines.log[kept.upto :])), np.int64)
        kept.upto = len(machines.log)
        if rows.size:
            fits = kept.fits[rows] = machines.fits(shape, rows)
            rows = rows[fits]
            if rows.size:
                kept.scores[rows], kept.cards[rows] = self.policy.score(shape, rows)
        return kept
