"""PrioritySort: the highest priority first, then the longest wait."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from projections.cluster import Pod


class PrioritySort(msgspec.Struct, frozen=True):
    """Sorts by ``spec.priority``, then by the start of the wait, then by uid."""

    name: ClassVar[str] = "PrioritySort"
    is_local: ClassVar[bool] = True

    def sort_key(self, pod: Pod, added_us: int) -> tuple[object, ...]:
        """The smaller is next."""
        return (-pod.priority, added_us, pod.uid)
