"""YodaSort: a larger label ``scv/priority`` comes first, then a longer wait.

Source: Yoda-Scheduler, pkg/yoda/sort.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from projections.cluster import Pod
from reactors.scheduling.plugins.yoda import priority_of


class YodaSort(msgspec.Struct, frozen=True):
    """Sorts by a label; takes the place of PrioritySort in a profile."""

    name: ClassVar[str] = "YodaSort"
    is_local: ClassVar[bool] = True

    def sort_key(self, pod: Pod, added_us: int) -> tuple[object, ...]:
        """By priority, then by when it began to wait, then by uid."""
        return (-priority_of(pod), added_us, pod.uid)
