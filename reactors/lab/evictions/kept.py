"""Pods evicted on record and running under trial, with their ends.

- A pod with a controller runs until its replacement appears, and the replacement runs as on record. It ends at the latest with its
  controller.
- A bare pod runs as long as the median of its namespace's pods ended by then.

Pure but for its own state.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator

import msgspec

from bus.clock import parse_stamp
from bus.errors import TimestampError
from bus.events.pods import PodState, PodVanished
from projections.cluster import Pod
from projections.cluster.rows import ENDED
from reactors.lab.span import PodSpan


class KeptSpan(PodSpan):
    """The span of a pod evicted on record or under trial. ``least_us`` and ``most_us`` bound ``until_us``; 0 = not yet."""

    least_us: int = 0
    most_us: int = 0


class _Kept(msgspec.Struct):
    pod: Pod
    span: KeptSpan
    #: The end of a bare pod; None = it has a controller.
    until_us: int | None


class KeptPods:
    """Kept pods by uid. It reads the record, and reports the pods' ends under trial."""

    def __init__(self) -> None:
        self._kept: dict[str, _Kept] = {}
        self._ran: dict[str, list[int]] = {}

    def __contains__(self, uid: str) -> bool:
        return uid in self._kept

    def __iter__(self) -> Iterator[str]:
        return iter(self._kept)

    def keep(self, pod: Pod, span: KeptSpan) -> None:
        """Let a pod run on after its eviction on record."""
        until_us = None
        if pod.owner is None:
            ran = self._ran.get(pod.namespace) or self._ran.get("") or [0]
            until_us = max(pod.started_us + ran[len(ran) // 2], span.from_us)
        self._kept[pod.uid] = _Kept(pod, span, until_us)

    def ran(self, fact: PodState, at_us: int) -> None:
        """Record a pod's end other than an eviction."""
        try:
            began_us = parse_stamp(fact.scheduled or "")
        except TimestampError:
            return
        for name in (fact.namespace, ""):
            bisect.insort(self._ran.setdefault(name, []), max(at_us - began_us, 0))

    def replaced(self, fact: PodState, at_us: int) -> Iterator[Pod]:
        """The kept pod replaced by a new pod on record."""
        if (
            fact.owner is None
            or not fact.node
            or isinstance(fact, PodVanished)
            or fact.phase in ENDED
        ):
            return
        for uid, one in self._kept.items():
            owner = one.pod.owner
            if owner is not None and owner.uid == fact.owner.uid and uid != fact.uid:
                yield self.end(uid, at_us)
                return

    def gone_with(self, owner: str, at_us: int) -> list[Pod]:
        """The pods of a deleted controller."""
        found = [u for u, one in self._kept.items() if one.pod.owner and one.pod.owner.uid == owner]
        return [self.end(uid, at_us) for uid in found]

    def over(self, at_us: int) -> list[Pod]:
        """Pods due to end by the median."""
        found = [
            (one.until_us, uid)
            for uid, one in self._kept.items()
            if one.until_us is not None and one.until_us <= at_us
        ]
        return [self.end(uid, until_us) for until_us, uid in sorted(found)]

    def end(self, uid: str, at_us: int) -> Pod:
        """A pod ends, or the trial evicts it, too."""
        one = self._kept.pop(uid)
        one.span.until_us = max(at_us, one.span.from_us)
        if one.until_us is None:
            # Its controller would not have kept it longer.
            one.span.most_us = one.span.until_us
        return one.pod
