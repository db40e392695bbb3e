"""CoschedulingSort: among pods of equal priority a higher label ``koordinator.sh/priority`` comes first.

It takes the place of PrioritySort.

Source: koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling (Less).
"""

from __future__ import annotations

import re
from typing import ClassVar

import msgspec

from projections.cluster import Pod

#: A number in a label; without one, or with another text, it is 0.
LABEL = "koordinator.sh/priority"
_INTEGER = re.compile(r"-?[0-9]{1,18}", re.ASCII)


class CoschedulingSort(msgspec.Struct, frozen=True):
    """Sorts by priority, then by the label, then by the longer wait, then by name."""

    name: ClassVar[str] = "CoschedulingSort"
    is_local: ClassVar[bool] = True

    def sort_key(self, pod: Pod, added_us: int) -> tuple[object, ...]:
        """The smaller is next."""
        group = pod.labels.get(LABEL, "")
        label = int(group) if _INTEGER.fullmatch(group) else 0
        return (-pod.priority, -label, added_us, pod.namespace, pod.name, pod.uid)
