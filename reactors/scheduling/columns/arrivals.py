"""Statistics of the pods arrived so far, for packing policies with learning. Pure but for its state.

Kinds of pods are counted at their arrival. A lesson is a copy of the counts at one time. It is renewed after a growth of 30 % in
pods, so plugins keep their answers about nodes from one lesson to the next.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from projections.cluster import Pod
from reactors.scheduling.columns.pod_shapes import Kind, kind_of
from reactors.scheduling.shape import SavedArrivals

#: A lesson is renewed after this many pods, and then when their number has grown by this.
FIRST_AFTER = 50
GROWTH = 1.3
#: Most kinds counted. Beyond, every count is halved, and kinds met once are forgotten.
MOST_KINDS = 4_096


class Lesson(msgspec.Struct, frozen=True, eq=False):
    """The kinds of pods at one time."""

    number: int
    kinds: Mapping[Kind, int]


class Arrivals:
    """Arrived pods. The caller counts each once."""

    def __init__(self) -> None:
        self._kinds: dict[Kind, int] = {}
        self._count = 0
        self._learn_at = 1
        #: The newest lesson.
        self.lesson = Lesson(0, {})

    def saved(self) -> SavedArrivals:
        """The part of a snapshot for arrivals."""
        lesson, kinds = self.lesson, [*self._kinds.items()]
        return SavedArrivals(
            self._count, self._learn_at, kinds, lesson.number, [*lesson.kinds.items()]
        )

    @classmethod
    def restored(cls, saved: SavedArrivals) -> Arrivals:
        """Arrivals from a snapshot."""
        found = cls()
        found._count, found._learn_at = saved.count, saved.learn_at
        found._kinds = dict(saved.kinds)
        found.lesson = Lesson(saved.lesson, dict(saved.learned))
        return found

    def count(self, pod: Pod) -> None:
        """A pod arrived."""
        kind = kind_of(pod)
        if kind not in self._kinds and len(self._kinds) >= MOST_KINDS:
            self._forget()
        self._kinds[kind] = self._kinds.get(kind, 0) + 1
        self._count += 1
        if self._count >= self._learn_at:
            self._learn_at = max(self._count + FIRST_AFTER, int(self._count * GROWTH))
            self.lesson = Lesson(self.lesson.number + 1, dict(self._kinds))

    def _forget(self) -> None:
        self._kinds = {kind: count // 2 for kind, count in self._kinds.items() if count > 1}
