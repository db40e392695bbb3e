"""The evidence of one complete list: present objects and missing objects.

A list is kept as one small row per part (:data:`projections.lists.rows.pod_lists`); its uids stay in the archive. The
newest parts are also held in memory, since almost every question is about them.

Source: docs/accounting.md (end unseen).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

import msgspec

from bus.envelope import Event
from bus.events.observations import ObjectsListed
from bus.events.pods import PodsListed
from projections.timelines import History, is_ordered, precedes

#: A list's time is the time of its request: observations while it was on its way may be older than its content.
#: After a list of an older version, requested longer than this before an observation (microseconds), none is newer
#: than it.
EARLIER_US = 3_600 * 1_000_000


Beat = Callable[[int], int | None]


class Absence(msgspec.Struct, frozen=True, gc=False):
    """The evidence of complete lists about a pod without a known end.

    ``seen_us``: the latest evidence of it, an observation or a list with it. ``missed_us``: the earliest list after
    that without it; None without one.
    """

    seen_us: int
    missed_us: int | None


class Listed(Protocol):
    """A pod or a claim: present or missing in complete lists."""

    @property
    def uid(self) -> str:
        """Its uid."""

    @property
    def cluster(self) -> str:
        """Its cluster."""

    @property
    def history(self) -> History:
        """Its observations."""


class PodListPart(msgspec.Struct, frozen=True):
    """One part of a complete list: every pod of [first, until) at ``time_us``. ``until`` "" is no upper end."""

    cluster: str
    time_us: int
    first: str
    until: str
    resource_version: str
    sequence: int
    uids: frozenset[str]

    def covers(self, uid: str) -> bool:
        """Whether the part speaks of this uid."""
        return self.first <= uid and (not self.until or uid < self.until)


def part_of(event: Event, fact: PodsListed | ObjectsListed) -> PodListPart:
    """The part of a complete list in ``fact``, as published in ``event``."""
    return PodListPart(
        event.cluster, event.time_us, fact.first, fact.until, fact.resource_version,
        event.sequence, frozenset(fact.uids),
    )  # fmt: skip


def everything(cluster: str, time_us: int) -> PodListPart:
    """An empty part over every pod of a cluster."""
    return PodListPart(cluster, time_us, "", "", "", 0, frozenset())


def rank(part: PodListPart) -> tuple[bool, int, str, str, list[str]]:
    """The order of two lists of one moment: the later by version, else by text. Equal only for equal lists."""
    ordered = is_ordered(part.resource_version)
    length = len(part.resource_version) if ordered else 0
    return (ordered, length, part.resource_version, part.until, sorted(part.uids))


def absence(pod: Listed, parts: Iterable[PodListPart], beat: Beat) -> Absence:
    """The evidence of ``parts`` (those around the pod or claim, newest first).

    ``beat(us)``: the newest moment before ``us`` with full information at the source. It reported no delete, so
    objects of that time still existed.
    """
    version, time_us, _ = pod.history[-1]
    missed_us, seen_us = None, time_us
    for part in parts:
        if not precedes(version, time_us, part.resource_version, part.time_us):
            if part.time_us <= time_us - EARLIER_US:
                break
            continue
        if pod.uid in part.uids:
            seen_us = part.time_us
            break
        missed_us = part.time_us
    reported_us = None if missed_us is None else beat(missed_us)
    return Absence(seen_us if reported_us is None else max(seen_us, reported_us), missed_us)
