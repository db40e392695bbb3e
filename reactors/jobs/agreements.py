"""How far the steps that were decided are those that the operator takes.

- ``agreed``: the cluster showed a step after it was decided.
- ``missed``: it did not, for :data:`reactors.jobs.shape.UNSEEN_US`.
- ``unforeseen``: the cluster showed a step that nobody had decided.

Source: docs/jobs.md.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from projections.engine.parts import Part

#: Most steps that are named.
MOST = 200

Agreement = Literal["agreed", "missed", "unforeseen"]


class Difference(msgspec.Struct, frozen=True):
    """A step on which operator and Bursar differ. ``step``: ``create``, ``delete``, ``report`` or ``delete_job``."""

    at_us: int
    namespace: str
    job: str
    step: str
    #: The pod, or the conditions.
    what: str
    result: Agreement


class SavedAgreements(msgspec.Struct):
    """What a snapshot holds of them."""

    counts: dict[tuple[str, str], int]
    differences: list[Difference]


class Agreements(Part):
    """How many steps agreed, by step and result; and the newest that did not."""

    Saved = SavedAgreements

    def __init__(self) -> None:
        self.counts: dict[tuple[str, str], int] = {}
        self.differences: list[Difference] = []

    def agreed(self, step: str) -> None:
        """A decided step was seen."""
        self._count(step, "agreed")

    def differs(self, difference: Difference) -> None:
        """A step was not seen, or not decided."""
        self._count(difference.step, difference.result)
        self.differences.append(difference)
        del self.differences[:-MOST]

    def _count(self, step: str, result: Agreement) -> None:
        self.counts[step, result] = self.counts.get((step, result), 0) + 1
