"""Agreement between decided steps and the operator's steps.

- ``agreed``: the cluster showed a step after its decision.
- ``missed``: it did not, for :data:`reactors.jobs.shape.UNSEEN_US`.
- ``unforeseen``: the cluster showed a step without a decision.

Source: docs/jobs.md.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from projections.engine.parts import Part

#: Most named steps.
MOST = 200

Agreement = Literal["agreed", "missed", "unforeseen"]


class StepDiff(msgspec.Struct, frozen=True):
    """A difference in steps between operator and Bursar. ``step``: ``create``, ``delete``, ``report`` or ``delete_job``."""

    at_us: int
    namespace: str
    job: str
    step: str
    #: The pod, or the conditions.
    what: str
    result: Agreement


class SavedAgreements(msgspec.Struct):
    """The agreements in a snapshot."""

    counts: dict[tuple[str, str], int]
    differences: list[StepDiff]


class Agreements(Part):
    """The number of steps by step and result; and the newest differences."""

    Saved = SavedAgreements

    def __init__(self) -> None:
        self.counts: dict[tuple[str, str], int] = {}
        self.differences: list[StepDiff] = []

    def agreed(self, step: str) -> None:
        """A decided step was seen."""
        self._count(step, "agreed")

    def differs(self, difference: StepDiff) -> None:
        """A step was not seen, or not decided."""
        self._count(difference.step, difference.result)
        self.differences.append(difference)
        del self.differences[:-MOST]

    def _count(self, step: str, result: Agreement) -> None:
        self.counts[step, result] = self.counts.get((step, result), 0) + 1
