"""Releases without a running pod, and the pace at which released workloads begin to run. Pure but for its state.

Source: docs/queues.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import msgspec

from bus.clock import SECOND_US
from projections.engine.parts import Part

#: A release without an observed pod counts as starting for this time; then it is late, as its controller may be stuck.
START_US = 5 * SECOND_US
#: A late release counts for its own quota until this age.
LATE_US = 60 * SECOND_US
#: The pace counts the starts within this time, at most MOST_PACE.
PACE_US = SECOND_US
MOST_PACE = 256
#: Phases of a pod before its kubelet starts it.
_UNSTARTED = frozenset({"", "Pending", "Unknown"})


class Start(msgspec.Struct, frozen=True, array_like=True):
    """A release without an observed pod."""

    since_us: int
    quota: str


class SavedStarts(msgspec.Struct):
    """The starts as a snapshot holds them."""

    starting: dict[str, Start]
    made: set[str]
    _ran: list[int]


class Starts(Part):
    """Starts by uid of the released workload. ``is_there``: whether a workload is held or runs, neither gone nor ended."""

    Saved = SavedStarts
    derived = frozenset({"_is_there"})

    def __init__(self, is_there: Callable[[str], bool]) -> None:
        self._is_there = is_there
        #: Releases without an observed pod; then releases with a pod, before the first pod runs.
        self.starting: dict[str, Start] = {}
        self.made: set[str] = set()
        #: The times of the newest starts.
        self._ran: list[int] = []

    def release(self, uid: str, start: Start) -> None:
        """Add a release, and forget releases older than LATE_US."""
        past_us = start.since_us - LATE_US
        self.starting = {
            one: known for one, known in self.starting.items() if known.since_us > past_us
        }
        self.starting[uid] = start
        self.made.discard(uid)

    def see_pod(self, uid: str, phase: str, time_us: int) -> bool:
        """Record a pod of a workload, in its phase. Returns whether it starts the workload: by its controller, or by a kubelet."""
        is_made = self.starting.pop(uid, None) is not None
        if is_made:
            self.made.add(uid)
        has_begun = uid in self.made and phase not in _UNSTARTED
        if has_begun:
            self.made.discard(uid)
            self._ran.append(time_us)
            del self._ran[:-MOST_PACE]
        return is_made or has_begun

    def forget(self, uid: str) -> None:
        """Drop a deleted workload."""
        self.starting.pop(uid, None)
        self.made.discard(uid)

    def count(self, now_us: int) -> int:
        """The number of releases without an observed pod. Releases older than START_US do not count."""
        late_us = now_us - START_US
        return sum(
            start.since_us > late_us and self._is_there(uid) for uid, start in self.starting.items()
        )

    def unmade(self, now_us: int) -> Counter[str]:
        """By quota, the number of releases of the last minute without an observed pod, late ones included."""
        past_us = now_us - LATE_US
        return Counter(
            start.quota
            for uid, start in self.starting.items()
            if start.since_us > past_us and self._is_there(uid)
        )

    def pace(self, now_us: int) -> int:
        """The number of starts within the last second, by clocks that agree with this one."""
        since_us = now_us - PACE_US
        return sum(since_us < ran_us <= now_us for ran_us in self._ran)
