"""Parts of complete lists, from memory and from the table. The table is read only as far as needed.

Source: docs/accounting.md (end unseen).
"""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import sqlalchemy as sa

from projections.lists import queries
from projections.lists.parts import Listed, PodListPart

#: A time before every part. As the time of dropped parts: memory holds all parts.
NEVER = -(2**62)
#: The size of the first read of stored parts; each further read is four times as large.
_FIRST_READ = 8

Select = Callable[..., list[tuple[Any, ...]]]


class PartMemory:
    """The newest ``kept`` parts of each cluster in memory, oldest first, in front of the table of stored parts."""

    def __init__(self, select: Select, table: sa.Table, kept: int) -> None:
        self._select, self._kept = select, kept
        self.table = table
        self._parts: dict[str, list[PodListPart]] = defaultdict(list)
        #: Parts of this time or before may be missing in memory.
        self.dropped_us = NEVER

    def open(self) -> None:
        """Read the newest stored parts."""
        newest = queries.newest_parts(self._select, self.table, self._kept)
        for part in newest:
            self._parts[part.cluster].append(part)
        if len(newest) == self._kept:
            self.dropped_us = newest[0].time_us

    def parts(self, cluster: str) -> Sequence[PodListPart]:
        """The parts of a cluster in memory, oldest first."""
        return self._parts[cluster]

    def has_between(self, cluster: str, since_us: int, until_us: int) -> bool:
        """Whether a cluster has a part in a span of time, its ends included."""
        if any(since_us <= part.time_us <= until_us for part in self._parts[cluster]):
            return True
        return since_us <= self.dropped_us and queries.has_list(
            self._select, self.table, cluster, since_us, until_us
        )

    def same(self, part: PodListPart) -> PodListPart | None:
        """The part of the same time and beginning; None = there is none."""
        for known in self._parts[part.cluster]:
            if known.time_us == part.time_us and known.first == part.first:
                return known
        is_stored = part.time_us <= self.dropped_us
        return queries.same_part(self._select, self.table, part) if is_stored else None

    def put(self, part: PodListPart, same: PodListPart | None) -> None:
        """Add a part, in the place of ``same``."""
        known = self._parts[part.cluster]
        if same is not None:
            known[:] = [one for one in known if one != same]
        bisect.insort(known, part, key=lambda one: (one.time_us, one.first))

    def settle(self) -> None:
        """Drop the stored parts that are not among the newest."""
        for parts in self._parts.values():
            excess = len(parts) - self._kept
            if excess > 0:
                self.dropped_us = max(self.dropped_us, parts[excess - 1].time_us)
                del parts[:excess]

    def beside(self, part: PodListPart, until: str, *, is_before: bool) -> Iterator[PodListPart]:
        """The parts before or after ``part`` over any uid from its start until ``until``, nearest first."""
        extent = (part.cluster, part.first, until)
        recent, late = self.known(extent)
        if is_before:
            yield from (one for one in recent if one.time_us < part.time_us)
            until_us = min(part.time_us, self.dropped_us + 1)
            yield from self.stored(extent, late, until_us, lambda _: True)
        else:
            yield from self.stored(extent, late, part.time_us, lambda _: True, is_before=False)
            yield from (one for one in reversed(recent) if one.time_us > part.time_us)

    def older(
        self, pod: Listed, until_us: int, is_asked: Callable[[PodListPart], bool]
    ) -> Iterator[PodListPart]:
        """The parts over a pod before ``until_us``, newest first, with uids on request."""
        extent = extent_of(pod)
        recent, late = self.known(extent)
        yield from (part for part in recent if part.time_us < until_us)
        yield from self.stored(extent, late, min(until_us, self.dropped_us + 1), is_asked)

    def known(self, extent: queries.Extent) -> tuple[list[PodListPart], list[PodListPart]]:
        """The parts in memory over any of an extent, newest first: all since some moment, and of those before it some."""
        cluster, first, until = extent
        known = [
            part
            for part in reversed(self._parts[cluster])
            if (not until or part.first < until) and (not part.until or part.until > first)
        ]
        recent = [part for part in known if part.time_us > self.dropped_us]
        return recent, known[len(recent) :]

    def stored(
        self,
        extent: queries.Extent,
        late: list[PodListPart],
        bound_us: int,
        is_asked: Callable[[PodListPart], bool],
        *,
        is_before: bool = True,
    ) -> Iterator[PodListPart]:
        """The parts possibly missing in memory: those before a moment newest first, or those after it oldest first.
        With uids on request, and of ``late``.
        """
        if self.dropped_us == NEVER or (bound_us >= self.dropped_us and not is_before):
            return
        mine = {(part.time_us, part.first): part for part in late}
        count = _FIRST_READ
        while True:
            bounds = (NEVER, bound_us) if is_before else (bound_us, self.dropped_us + 1)
            signed = -count if is_before else count
            found = queries.parts_between(self._select, self.table, extent, *bounds, signed)
            if is_whole := len(found) < count:
                since_us, until_us = bounds
            else:
                # Other parts of the last moment may not have been read.
                edge_us = found[-1].time_us
                since_us, until_us = (edge_us, bound_us) if is_before else (bound_us, edge_us)
            both = {(part.time_us, part.first): part for part in found} | mine
            for key in sorted(both, reverse=is_before):
                if since_us < key[0] < until_us:
                    is_stored = key not in mine and is_asked(both[key])
                    yield queries.with_uids(self._select, both[key]) if is_stored else both[key]
            if is_whole:
                return
            bound_us, count = edge_us + 1 if is_before else edge_us - 1, 4 * count


def extent_of(pod: Listed) -> queries.Extent:
    """The extent of one uid: no text storable in a database sorts between the uid and the end."""
    return (pod.cluster, pod.uid, pod.uid + "\x01")
