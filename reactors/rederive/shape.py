"""The findings of deriving journals again."""

from __future__ import annotations

import msgspec

from projections.quota_trees.tree import Fact


class DecisionDifference(msgspec.Struct, frozen=True):
    """A decision that does not follow: the one recorded at ``sequence`` under ``id``, and the derived one.

    ``should`` None: none is derived from the history there. ``recorded`` None: it is absent beside the others of its look;
    ``id`` and ``sequence`` are those of the last of them.
    """

    id: str
    sequence: int
    recorded: Fact | None
    should: Fact | None


class Checked(msgspec.Struct, frozen=True):
    """The number of equal decisions, and the different ones."""

    same: int
    differences: tuple[DecisionDifference, ...]
