"""A question about groups in a period, and the rows of its answer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from zoneinfo import ZoneInfo

import msgspec

#: Dimensions of groups, besides ``label:KEY``.
DIMENSIONS = (
    "team", "user", "namespace", "workload", "quota", "model", "device", "class", "node", "day", "hour",
    "cluster", "job", "attempt", "cause",
)  # fmt: skip
LABEL = "label:"


UTC = ZoneInfo("UTC")

Key = tuple[Any, ...]
#: Start in seconds UTC, and how it is called in its zone.
Period = tuple[int, str]


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters: groups, a period [from_s, to_s) in seconds UTC (None: open), the moment, the zone of days and
    hours.

    ``where`` selects pods by equality of ``team``, ``user``, ``namespace`` or ``cluster`` in their holdings.
    """

    by: tuple[str, ...] = ()
    from_s: int | None = None
    to_s: int | None = None
    as_of_s: int
    zone: ZoneInfo = UTC
    where: dict[str, str] = {}
    #: Cluster to the second of its last observation: open holdings end then, and the time from then until
    #: ``as_of_s`` is unknown. A missing cluster counts as observed until ``as_of_s``.
    moments: dict[str, int] = {}

    def observed_s(self, cluster: str) -> int:
        """The last second with known open holdings in a cluster."""
        return min(self.as_of_s, self.moments.get(cluster, self.as_of_s))

    @property
    def until_s(self) -> int:
        """Where the period ends, at the latest now."""
        return self.as_of_s if self.to_s is None else min(self.to_s, self.as_of_s)


class Sums(msgspec.Struct):
    """The sums of a group. Whole pods, amounts × seconds, and seconds."""

    pods: int = 0
    held_pods: int = 0
    cpu_milli_s: int = 0
    gpu_milli_s: int = 0
    memory_mib_s: int = 0
    held_s: int = 0
    waiting_s: int = 0
    unknown_s: int = 0


class ReportRow(msgspec.Struct, frozen=True):
    """A group: the values of ``by`` in its order (None: without a value), and its sums."""

    key: Key
    sums: Sums


def check(by: Iterable[str]) -> tuple[str, ...]:
    """The dimensions, each once. Raises ValueError with an unknown one."""
    found = tuple(dict.fromkeys(by))
    for name in found:
        if name not in DIMENSIONS and not (name.startswith(LABEL) and len(name) > len(LABEL)):
            raise ValueError(f"cannot group by {name!r}: {', '.join(DIMENSIONS)} or {LABEL}KEY")
    return found
