"""The newest parts of complete lists in memory, and the way to the older ones.

Almost every question about an absent pod is answered by what was listed last. Where it is not, the stored lists are
asked, so that an answer never depends on how much is kept in memory.

Source: ``accounting.md`` section 2 (end unseen).
"""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import sqlalchemy as sa

from projections.histories import precedes
from projections.pod_runs import lists, queries
from projections.pod_runs.derive import Absence
from projections.pod_runs.shape import Pod

Select = Callable[[sa.Select[Any]], list[tuple[Any, ...]]]


class RecentLists:
    """Parts of complete lists, the newest ``kept`` of each cluster in memory. ``added``: those of this batch."""

    def __init__(self, select: Select, kept: int) -> None:
        self._select = select
        self._kept = kept
        self._parts: dict[str, list[lists.Part]] = defaultdict(list)
        #: Parts of this time or before may be missing in memory.
        self._dropped_us = -(2**62)
        self.added: list[lists.Part] = []

    def open(self) -> None:
        """Take in the newest parts that are stored."""
        newest = queries.newest_parts(self._select, self._kept)
        for part in newest:
            self._parts[part.cluster].append(part)
        if len(newest) == self._kept:
            self._dropped_us = newest[0].time_us

    def add(self, part: lists.Part) -> bool | None:
        """Whether older answers may change with ``part``; None for one that adds nothing.

        Of two lists of one moment the later one by version counts, whichever arrived first.
        """
        known = self._parts[part.cluster]
        may_be_stored = part.time_us <= self._dropped_us
        same = next((p for p in known if p.time_us == part.time_us and p.first == part.first), None)
        if same is None and may_be_stored:
            same = queries.same_part(self._select, part)
        if same is not None and lists.rank(part) <= lists.rank(same):
            return None
        is_late = may_be_stored or (bool(known) and known[-1].time_us > part.time_us)
        if same is not None:
            known[:] = [p for p in known if p != same]
            self.added = [p for p in self.added if p != same]
        bisect.insort(known, part, key=lambda p: (p.time_us, p.first))
        self.added.append(part)
        return is_late or same is not None

    def absence(self, pod: Pod) -> Absence:
        """What the complete lists say of a pod."""
        parts = [p for p in self._parts[pod.cluster] if p.covers(pod.uid)]
        since_us = pod.history[-1][1] - lists.EARLIER_US
        if since_us < self._dropped_us and not self._is_answered(pod, parts):
            older = queries.parts_after(self._select, pod, since_us)
            held = {(p.time_us, p.first) for p in parts}
            parts += (p for p in older if (p.time_us, p.first) not in held)
            parts.sort(key=lambda p: p.time_us)
        return lists.absence(pod, reversed(parts))

    def _is_answered(self, pod: Pod, parts: list[lists.Part]) -> bool:
        """Whether a list that has the pod makes all that memory lacks irrelevant: it must be newer than they are."""
        version, time_us, _ = pod.history[-1]
        return any(
            part.time_us > self._dropped_us
            and pod.uid in part.uids
            and precedes(version, time_us, part.resource_version, part.time_us)
            for part in parts
        )

    def settle(self) -> None:
        """Let go of what is stored and not among the newest."""
        self.added = []
        for parts in self._parts.values():
            excess = len(parts) - self._kept
            if excess > 0:
                self._dropped_us = max(self._dropped_us, parts[excess - 1].time_us)
                del parts[:excess]
