"""The number of waiting workloads in each queue, by priority: the place of the next one. Pure but for its state.

Admission reports a place, and must not walk over all waiting workloads. So each workload is counted when it starts or ends
to wait. After a namespace moves to another quota, its workloads count there once they are observed again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection

from reactors.admission.deciding.mapping import QuotaRef

Turn = tuple[QuotaRef, int]
"""The queue and the priority of a waiting workload."""


class Places:
    """The workloads of all queues of a cluster."""

    def __init__(self, held: Collection[str], turn_of: Callable[[str], Turn | None]) -> None:
        """``held``: uids of possibly waiting workloads. ``turn_of`` returns None for one that does not wait."""
        self._held = held
        self._turn_of = turn_of
        #: None = to be counted anew.
        self._turns: dict[str, Turn] | None = None
        self._counts: Counter[tuple[str, str, int]] = Counter()

    def forget(self) -> None:
        """Count all of them anew when a place is asked for."""
        self._turns = None

    def count(self, uid: str) -> None:
        """Count a changed workload again."""
        if self._turns is None:
            return
        if (before := self._turns.pop(uid, None)) is not None:
            key = _key(*before)
            self._counts[key] -= 1
            if not self._counts[key]:
                del self._counts[key]
        if (turn := self._turn_of(uid)) is not None:
            self._turns[uid] = turn
            self._counts[_key(*turn)] += 1

    def ahead(self, where: QuotaRef, priority: int) -> int:
        """The number of workloads ahead of a new one of this priority."""
        if self._turns is None:
            self._turns, self._counts = {}, Counter()
            for uid in self._held:
                self.count(uid)
        queue = (where.kind, where.quota)
        return sum(
            number
            for (kind, quota, value), number in self._counts.items()
            if (kind, quota) == queue and value >= priority
        )


def _key(where: QuotaRef, priority: int) -> tuple[str, str, int]:
    return where.kind, where.quota, priority
