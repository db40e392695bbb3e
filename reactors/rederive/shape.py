"""The findings of deriving journals again."""

from __future__ import annotations

import msgspec

from projections.quota_trees.tree import Fact


class Difference(msgspec.Struct, frozen=True):
    """A decision that does not follow: what was recorded at ``sequence`` under ``id``, and what should have been.

    ``should`` None: nothing should, on what was to be read there. ``recorded`` None: nothing was, beside the others of its look;
    ``id`` and ``sequence`` are those of the last of them.
    """

    id: str
    sequence: int
    recorded: Fact | None
    should: Fact | None


class Checked(msgspec.Struct, frozen=True):
    """How many decisions came out the same, and those that did not."""

    same: int
    differences: tuple[Difference, ...]
