"""Values of a queue: waiting workloads, running workloads, and their order. Pure.

Source: docs/queues.md.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from reactors.admission.deciding.decide import Request

#: The priority without any class or default, as in Kubernetes.
NO_PRIORITY = 0


class WaitingWorkload(msgspec.Struct, frozen=True):
    """A held workload. ``request``: its amounts once it runs."""

    request: Request
    priority: int
    created_us: int
    #: Seconds from its start to its end by its controller; None = no end is set.
    deadline_s: int | None = None
    #: A person ordered to hold it back.
    is_stopped: bool = False
    #: Why it may not use the quota at all; "" = it may.
    refusal: str = ""

    @property
    def uid(self) -> str:
        """Of the workload."""
        return self.request.uid

    @property
    def place(self) -> tuple[int, int, str]:
        """The sort key: the highest priority first, then the oldest; uids break ties."""
        return -self.priority, self.created_us, self.uid


class Running(msgspec.Struct, frozen=True):
    """A workload with ``charge`` of a quota, by key. ``ends_us``: its deadline; None = never."""

    uid: str
    charge: dict[str, int]
    ends_us: int | None = None
    #: Uid of the waiting head at its release; "" if it passed none.
    passed: str = ""
    #: It is about to stop and wait again.
    is_returning: bool = False


class QueueLine(msgspec.Struct):
    """One quota's queue. ``stopped``: uids of workloads that stopped to wait again, and are charged still."""

    waiting: list[WaitingWorkload] = msgspec.field(default_factory=list)
    stopped: list[str] = msgspec.field(default_factory=list)


def ordered(waiting: Iterable[WaitingWorkload]) -> list[WaitingWorkload]:
    """Workloads that may start, the first one first."""
    may_come = (one for one in waiting if not one.is_stopped and not one.refusal)
    return sorted(may_come, key=lambda one: one.place)
