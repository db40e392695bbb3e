"""Which releases have no running pod yet, and how fast released workloads begin to run. Pure but for its state.

Source: docs/queues.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import msgspec

from bus.clock import SECOND_US
from projections.engine.parts import Part

#: So long a release counts as starting if no pod of it is seen: its controller may be stuck. Then it is late.
START_US = 5 * SECOND_US
LATE_US = 60 * SECOND_US
#: The pace is what began to run within this time; so many are remembered.
PACE_US = SECOND_US
MOST_PACE = 256
#: Phases of a pod that its kubelet has not started.
_UNSTARTED = frozenset({"", "Pending", "Unknown"})


class Start(msgspec.Struct, frozen=True, array_like=True):
    """A release of which no pod was seen yet."""

    since_us: int
    quota: str


class SavedStarts(msgspec.Struct):
    """What a snapshot holds of the starts."""

    starting: dict[str, Start]
    made: set[str]
    _ran: list[int]


class Starts(Part):
    """By uid of released workloads. ``is_there`` tells whether one is held or runs: neither gone nor ended."""

    Saved = SavedStarts
    derived = frozenset({"_is_there"})

    def __init__(self, is_there: Callable[[str], bool]) -> None:
        self._is_there = is_there
        #: Released, and no pod of it was seen yet; and those of which a pod was, and none ran yet.
        self.starting: dict[str, Start] = {}
        self.made: set[str] = set()
        #: When the newest of them began to run.
        self._ran: list[int] = []

    def release(self, uid: str, start: Start) -> None:
        """Add a release, and forget those that are late by now."""
        past_us = start.since_us - LATE_US
        self.starting = {
            one: known for one, known in self.starting.items() if known.since_us > past_us
        }
        self.starting[uid] = start
        self.made.discard(uid)

    def see_pod(self, uid: str, phase: str, time_us: int) -> bool:
        """Take in a pod of a workload, in its phase. Gives whether that starts it: by its controller, or by a kubelet."""
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
        """Drop a workload that is gone."""
        self.starting.pop(uid, None)
        self.made.discard(uid)

    def count(self, now_us: int) -> int:
        """How many were released and have not started; what takes too long is not waited for."""
        late_us = now_us - START_US
        return sum(
            start.since_us > late_us and self._is_there(uid) for uid, start in self.starting.items()
        )

    def unmade(self, now_us: int) -> Counter[str]:
        """How many of each quota were released within the last minute and have no pod, late ones included."""
        past_us = now_us - LATE_US
        return Counter(
            start.quota
            for uid, start in self.starting.items()
            if start.since_us > past_us and self._is_there(uid)
        )

    def pace(self, now_us: int) -> int:
        """How many began to run within the last second, of clocks that agree with this one."""
        since_us = now_us - PACE_US
        return sum(since_us < ran_us <= now_us for ran_us in self._ran)
