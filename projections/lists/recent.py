"""The newest parts of complete lists in memory, and the way to the older ones.

The last lists answer almost every question about an absent pod. Otherwise the stored lists are read, so an answer
never depends on the size of memory: first the pod's departure, so the later lists without it are not read one by
one.

Source: docs/accounting.md (end unseen).
"""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from typing import Any

import msgspec
import sqlalchemy as sa

from projections.engine.changes import Changes
from projections.lists import departures, queries
from projections.lists.departures import Departures
from projections.lists.memory import NEVER, PartMemory, Select, extent_of
from projections.lists.parts import EARLIER_US, Absence, Listed, PodListPart, absence, rank
from projections.lists.rows import pod_beats, pod_departures, pod_lists
from projections.timelines import precedes

#: Heartbeats of the source of pods in memory: an hour.
BEATS_KEPT = 64

#: A source with a report within this time before an observation (microseconds) was alive: it reports about once a
#: minute.
ALIVE_US = 75 * 1_000_000


class RecentLists:
    """Parts of complete lists, the newest ``kept`` of each cluster in memory. ``added``: the ones of this batch.

    Without a table of beats nothing counts but lists.
    """

    def __init__(
        self,
        select: Select,
        kept: int,
        table: sa.Table = pod_lists,
        beats: sa.Table | None = pod_beats,
        left: sa.Table = pod_departures,
    ) -> None:
        self._select = select
        self._memory = PartMemory(select, table, kept)
        self._beats_table, self._left_table = beats, left
        self._departures = Departures(select, left)
        self.added: list[PodListPart] = []
        #: The content of the part replaced by the newest one.
        self.replaced: frozenset[str] = frozenset()
        self._beats: dict[str, list[int]] = defaultdict(list)
        #: Beats of this time or before may be missing in memory.
        self._beats_dropped_us = NEVER
        #: (cluster, time, sequence) of those of this batch.
        self.beats_added: list[tuple[str, int, int]] = []

    def open(self) -> None:
        """Load the newest stored parts."""
        self._memory.open()
        if self._beats_table is None:
            return
        beats = queries.newest_beats(self._select, BEATS_KEPT)
        for cluster, time_us in beats:
            self._beats[cluster].append(time_us)
        if len(beats) == BEATS_KEPT:
            self._beats_dropped_us = beats[0][1]

    def add_beat(self, cluster: str, time_us: int, sequence: int) -> bool | None:
        """The source of pods had full information at ``time_us``. Returns whether the evidence of older lists may
        change; None for a known heartbeat.
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
        parts = self._memory.parts(cluster)
        return time_us <= self._memory.dropped_us or (bool(parts) and parts[-1].time_us > time_us)

    def next_beat(self, cluster: str, after_us: int) -> int | None:
        """The first beat after a moment; None where there is none."""
        known = self._beats[cluster]
        place = bisect.bisect_right(known, after_us)
        found = known[place] if place < len(known) else None
        if after_us < self._beats_dropped_us:
            stored = queries.beat_after(self._select, cluster, after_us)
            found = min((us for us in (found, stored) if us is not None), default=None)
        return found

    def is_alive(self, cluster: str, us: int) -> bool:
        """Whether the source of pods reported shortly before a moment, or never reported before it."""
        beat = self._beat(cluster, us)
        if beat is None or us - beat <= ALIVE_US:
            return True
        return self._memory.has_between(cluster, us - ALIVE_US, us)

    def proof(self, pod: Listed, version: str, us: int, since_us: int) -> int:
        """The newest moment from ``since_us`` to ``us`` with a proof of a pod ended at ``version``, by lists or
        heartbeats.
        """
        proven_us = max(since_us, self._beat(pod.cluster, us) or since_us)

        def is_asked(part: PodListPart) -> bool:
            return precedes(part.resource_version, part.time_us, version, us)

        for part in self._memory.older(pod, us + 1, is_asked):
            if part.time_us <= proven_us:
                break
            if is_asked(part) and pod.uid in part.uids:
                return part.time_us
        return proven_us

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

    def add(self, part: PodListPart) -> bool | None:
        """Whether older answers may change with ``part``; None for a part without news.

        Of two lists of one moment the later one by version counts, whichever arrived first.
        """
        known, same = self._memory.parts(part.cluster), self._memory.same(part)
        if same is not None and rank(part) <= rank(same):
            return None
        may_be_stored = part.time_us <= self._memory.dropped_us
        is_late = may_be_stored or (bool(known) and known[-1].time_us > part.time_us)
        self._depart(part, same)
        self.replaced = same.uids if same is not None else frozenset()
        if same is not None:
            self.added = [p for p in self.added if p != same]
        self._memory.put(part, same)
        self.added.append(part)
        return is_late or same is not None

    def absence(self, pod: Listed) -> Absence:
        """The evidence of complete lists about a pod, or a claim."""
        return absence(pod, self._covering(pod), partial(self._beat, pod.cluster))

    def _depart(self, part: PodListPart, same: PodListPart | None) -> None:
        """Note the objects missing between ``part``, in the place of ``same``, and the lists around it."""
        until = part.until
        if same is not None:
            until = max(until, same.until) if until and same.until else ""
        before = departures.stretches(part, until, self._memory.beside(part, until, is_before=True))
        after = departures.stretches(part, until, self._memory.beside(part, until, is_before=False))
        for uid, removed, added in departures.changes(before, after, same, part):
            self._departures.change(uid, removed, added, part)

    def _covering(self, pod: Listed) -> Iterator[PodListPart]:
        """The parts over a pod or a claim, newest first: those in memory, then the stored ones, as far as needed.
        Of the parts without it, newer than its newest observation, the oldest represents all.
        """
        version, observed_us, _ = pod.history[-1]

        def is_asked(part: PodListPart) -> bool:
            return precedes(version, observed_us, part.resource_version, part.time_us)

        extent = extent_of(pod)
        recent, late = self._memory.known(extent)
        yield from recent
        until_us = self._memory.dropped_us + 1
        last = recent[-1] if recent else None
        if last is None:
            last = next(self._memory.stored(extent, late, until_us, lambda _: True), None)
            if last is None:
                return
            yield last
            until_us = last.time_us
        if self._memory.dropped_us != NEVER and pod.uid not in last.uids:
            left_us = self._departures.newest(pod.cluster, pod.uid, until_us)
            since_us = NEVER if left_us is None else left_us
            earlier_us = observed_us - EARLIER_US
            oldest_us = max(since_us, earlier_us)
            for part in self._memory.stored(
                extent, late, oldest_us, lambda _: False, is_before=False
            ):
                if part.time_us >= until_us:
                    break
                if is_asked(part):
                    yield part
                    break
            if since_us < earlier_us:
                until_us = min(until_us, earlier_us + 1)
                for part in self._memory.stored(extent, late, until_us, lambda _: False):
                    if part.time_us <= since_us:
                        break
                    yield part
            if left_us is None:
                return
            # The list before its departure had it.
            for part in self._memory.stored(extent, late, left_us + 1, lambda _: False):
                yield msgspec.structs.replace(part, uids=frozenset((pod.uid,)))
                break
            until_us = left_us
        yield from self._memory.stored(extent, late, until_us, is_asked)

    def may_change(self, pod: Listed, part: PodListPart) -> bool:
        """Whether ``part``, the newest, may change :meth:`absence`: not where the one before it said the same."""
        version, time_us, _ = pod.history[-1]
        since_us = time_us - EARLIER_US
        is_missing = pod.uid not in part.uids
        for known in reversed(self._memory.parts(pod.cluster)):
            is_after = precedes(version, time_us, known.resource_version, known.time_us)
            if not is_after and known.time_us <= since_us:
                return is_missing or known.time_us <= self._memory.dropped_us
            if is_after and known.covers(pod.uid) and known is not part:
                return is_missing != (pod.uid not in known.uids)
        return is_missing or self._memory.dropped_us != NEVER

    def changes(self) -> Changes:
        """The changes of the batch, as rows of its tables. The next batch begins: nothing is added yet."""
        parts: list[tuple[Any, ...]] = [
            (p.cluster, p.time_us, p.first, p.until, p.resource_version, p.sequence)
            for p in self.added
        ]
        found: dict[sa.Table, list[tuple[Any, ...]]] = {self._memory.table: parts}
        if self._beats_table is not None:
            found[self._beats_table] = self.beats_added
        again, found[self._left_table] = self._departures.rows()
        self.added, self.beats_added = [], []
        deletes = [(self._left_table, "uid", again)] if again else []
        return Changes(deletes, {table: rows for table, rows in found.items() if rows})

    def settle(self) -> None:
        """Drop stored parts older than the newest ones."""
        self._departures.settle()
        for beats in self._beats.values():
            excess = len(beats) - BEATS_KEPT
            if excess > 0:
                self._beats_dropped_us = max(self._beats_dropped_us, beats[excess - 1])
                del beats[:excess]
        self._memory.settle()
