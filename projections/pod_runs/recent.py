"""The newest parts of complete lists in memory, and the way to the older ones.

Almost every question about an absent pod is answered by what was listed last. Where it is not, the stored lists are
asked, so that an answer never depends on how much is kept in memory.

Source: docs/accounting.md (end unseen).
"""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from typing import Any

import sqlalchemy as sa

from projections.pod_runs import lists, queries
from projections.pod_runs.derive import Absence
from projections.pod_runs.shape import pod_beats, pod_lists
from projections.timelines import precedes

#: Words that the source of pods is told that stay in memory: an hour.
BEATS_KEPT = 64

Select = Callable[[sa.Select[Any]], list[tuple[Any, ...]]]


class RecentLists:
    """Parts of complete lists, the newest ``kept`` of each cluster in memory. ``added``: those of this batch.

    Without a table of beats nothing counts but lists.
    """

    def __init__(
        self,
        select: Select,
        kept: int,
        table: sa.Table = pod_lists,
        beats: sa.Table | None = pod_beats,
    ) -> None:
        self._select = select
        self._kept = kept
        self._lists_table, self._beats_table = table, beats
        self._parts: dict[str, list[lists.Part]] = defaultdict(list)
        #: Parts of this time or before may be missing in memory.
        self._dropped_us = -(2**62)
        self.added: list[lists.Part] = []
        self._beats: dict[str, list[int]] = defaultdict(list)
        #: Beats of this time or before may be missing in memory.
        self._beats_dropped_us = -(2**62)
        #: (cluster, time, sequence) of those of this batch.
        self.beats_added: list[tuple[str, int, int]] = []

    def open(self) -> None:
        """Take in the newest parts that are stored."""
        newest = queries.newest_parts(self._select, self._lists_table, self._kept)
        for part in newest:
            self._parts[part.cluster].append(part)
        if len(newest) == self._kept:
            self._dropped_us = newest[0].time_us
        if self._beats_table is None:
            return
        beats = queries.newest_beats(self._select, BEATS_KEPT)
        for cluster, time_us in beats:
            self._beats[cluster].append(time_us)
        if len(beats) == BEATS_KEPT:
            self._beats_dropped_us = beats[0][1]

    def add_beat(self, cluster: str, time_us: int, sequence: int) -> lists.Part | None:
        """The source of pods was told of every change at ``time_us``. A part for whose pods answers may change with it;
        None where there is none.
        """
        known = self._beats[cluster]
        place = bisect.bisect_left(known, time_us)
        if known[place : place + 1] == [time_us]:
            return None
        if time_us <= self._beats_dropped_us and (
            queries.beat_before(self._select, cluster, time_us + 1) == time_us
        ):
            return None
        known.insert(place, time_us)
        self.beats_added.append((cluster, time_us, sequence))
        parts = self._parts[cluster]
        is_late = time_us <= self._dropped_us or (bool(parts) and parts[-1].time_us > time_us)
        return lists.Part(cluster, time_us, "", "", "", sequence, frozenset()) if is_late else None

    def _beat(self, cluster: str, before_us: int) -> int | None:
        if self._beats_table is None:
            return None
        known = self._beats[cluster]
        place = bisect.bisect_left(known, before_us)
        found = known[place - 1] if place else None
        if found is None or found <= self._beats_dropped_us:
            stored = queries.beat_before(self._select, cluster, before_us)
            found = stored if found is None or (stored is not None and stored > found) else found
        return found

    def add(self, part: lists.Part) -> bool | None:
        """Whether older answers may change with ``part``; None for one that adds nothing.

        Of two lists of one moment the later one by version counts, whichever arrived first.
        """
        known = self._parts[part.cluster]
        may_be_stored = part.time_us <= self._dropped_us
        same = next((p for p in known if p.time_us == part.time_us and p.first == part.first), None)
        if same is None and may_be_stored:
            same = queries.same_part(self._select, self._lists_table, part)
        if same is not None and lists.rank(part) <= lists.rank(same):
            return None
        is_late = may_be_stored or (bool(known) and known[-1].time_us > part.time_us)
        if same is not None:
            known[:] = [p for p in known if p != same]
            self.added = [p for p in self.added if p != same]
        bisect.insort(known, part, key=lambda p: (p.time_us, p.first))
        self.added.append(part)
        return is_late or same is not None

    def absence(self, pod: lists.Listed) -> Absence:
        """What the complete lists say of a pod, or of a claim."""
        parts = [p for p in self._parts[pod.cluster] if p.covers(pod.uid)]
        since_us = pod.history[-1][1] - lists.EARLIER_US
        if since_us < self._dropped_us and not self._is_answered(pod, parts):
            older = queries.parts_after(self._select, self._lists_table, pod, since_us)
            held = {(p.time_us, p.first) for p in parts}
            parts += (p for p in older if (p.time_us, p.first) not in held)
            parts.sort(key=lambda p: p.time_us)
        return lists.absence(pod, reversed(parts), partial(self._beat, pod.cluster))

    def _is_answered(self, pod: lists.Listed, parts: list[lists.Part]) -> bool:
        """Whether a list that has the pod makes all that memory lacks irrelevant: it must be newer than they are."""
        version, time_us, _ = pod.history[-1]
        return any(
            part.time_us > self._dropped_us
            and pod.uid in part.uids
            and precedes(version, time_us, part.resource_version, part.time_us)
            for part in parts
        )

    def may_change(self, pod: lists.Listed, part: lists.Part) -> bool:
        """Whether ``part``, the newest, may change :meth:`absence`: not where the one before it said the same."""
        version, time_us, _ = pod.history[-1]
        since_us = time_us - lists.EARLIER_US
        is_missing = pod.uid not in part.uids
        for known in reversed(self._parts[pod.cluster]):
            if known.time_us <= since_us:
                break
            says = known.covers(pod.uid) and known is not part
            if says and precedes(version, time_us, known.resource_version, known.time_us):
                return is_missing != (pod.uid not in known.uids)
        return is_missing or since_us < self._dropped_us

    def changes(self) -> dict[sa.Table, list[tuple[Any, ...]]]:
        """What the batch added, as rows of its tables. The next batch begins: nothing is added yet."""
        parts: list[tuple[Any, ...]] = [
            (p.cluster, p.time_us, p.first, p.until, p.resource_version, p.sequence)
            for p in self.added
        ]
        found: dict[sa.Table, list[tuple[Any, ...]]] = {self._lists_table: parts}
        if self._beats_table is not None:
            found[self._beats_table] = self.beats_added
        self.added, self.beats_added = [], []
        return {table: rows for table, rows in found.items() if rows}

    def settle(self) -> None:
        """Let go of what is stored and not among the newest."""
        for beats in self._beats.values():
            excess = len(beats) - BEATS_KEPT
            if excess > 0:
                self._beats_dropped_us = max(self._beats_dropped_us, beats[excess - 1])
                del beats[:excess]
        for parts in self._parts.values():
            excess = len(parts) - self._kept
            if excess > 0:
                self._dropped_us = max(self._dropped_us, parts[excess - 1].time_us)
                del parts[:excess]
