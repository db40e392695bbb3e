"""How many wait in each queue, by priority: the place of the next one. Pure but for its state.

A place is reported at admission, which must not walk over all that wait. So each workload is counted when it begins or ends
to wait; the quota of a namespace that is mapped anew counts once the workload is seen again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection

from reactors.admission.deciding.mapping import QuotaRef

Turn = tuple[QuotaRef, int]
"""The queue in which a workload waits, and its priority."""


class Places:
    """The workloads of all queues of a cluster."""

    def __init__(self, held: Collection[str], turn_of: Callable[[str], Turn | None]) -> None:
        """``held``: uids of what may wait. ``turn_of`` gives None for one that does not."""
        self._held = held
        self._turn_of = turn_of
        #: None = to be counted anew.
        self._turns: dict[str, Turn] | None = None
        self._counts: Counter[tuple[str, str, int]] = Counter()

    def forget(self) -> None:
        """Count all of them anew when a place is asked for."""
        self._turns = None

    def count(self, uid: str) -> None:
        """Count one that changed."""
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
        """How many come before a workload of this priority that is made now."""
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
