"""Counts of the scheduler's work over the whole history, for its metrics. Pure but for its state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import msgspec

from bus.clock import SECOND_US
from bus.events.decisions import BindSettled, SchedulingPassed
from bus.metrics import Counted, Histogram
from projections.cluster import Change, Pod
from projections.engine.parts import Part

if TYPE_CHECKING:
    from reactors.scheduling.shape import Assumed

#: Upper bounds of the time from creation to the node, microseconds. Creations are stamped in whole seconds.
BIND_BOUNDS_US = tuple(seconds * SECOND_US for seconds in (1, 2, 5, 10, 30, 60, 300, 1_800, 7_200))


class SavedCounts(msgspec.Struct):
    """The part of a snapshot for the counts."""

    passes: int
    newest_us: int
    placed: int
    refused: int
    binds: dict[str, int]
    counted: Counted


class SchedulingCounts(Part):
    """Passes, decisions, and results of binds."""

    Saved = SavedCounts
    derived = frozenset({"seconds"})

    def __init__(self) -> None:
        self.passes = 0
        #: The time of the newest pass, microseconds UTC; 0 = there was none.
        self.newest_us = 0
        #: Pods placed by a pass, and pods refused by every node, shadows included.
        self.placed = 0
        self.refused = 0
        #: By result: pods observed on the node of their decision (``bound``) or on another one (``elsewhere``), and failed binds.
        self.binds: dict[str, int] = {}
        #: From the creation of a pod to its observation on the node of its decision.
        self.seconds = Histogram(BIND_BOUNDS_US)

    @property
    def counted(self) -> Counted:
        """The counts of the histogram."""
        return self.seconds.counted

    def restore(self, saved: SavedCounts) -> None:
        """Restore a saved state."""
        super().restore(saved)
        self.seconds = Histogram(BIND_BOUNDS_US, saved.counted)

    def passed(self, fact: SchedulingPassed, at_us: int) -> None:
        """A pass took effect."""
        self.passes += fact.part == 0
        self.newest_us = at_us
        placed = sum(one.node >= 0 for one in fact.pods)
        self.placed += placed
        self.refused += len(fact.pods) + len(fact.again) - placed

    def settled(self, fact: BindSettled) -> None:
        """Pods were not bound."""
        for one in fact.failed:
            self._bind(one.result)

    def observed(
        self, changes: Iterable[Change], assumed: Mapping[str, Assumed], at_us: int
    ) -> None:
        """Count the changes of the cluster. ``assumed``: the pods with a node ahead of it, by uid."""
        for change in changes:
            found, pod = assumed.get(change.uid), change.after
            if found is None or found.is_shadow or not isinstance(pod, Pod) or not pod.node:
                continue
            is_right = pod.node == found.node
            self._bind("bound" if is_right else "elsewhere")
            if is_right and isinstance(change.before, Pod):
                self.seconds.observe(max(0, at_us - change.before.started_us))

    def _bind(self, result: str) -> None:
        self.binds[result] = self.binds.get(result, 0) + 1
