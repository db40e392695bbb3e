"""Pods that wait for a node: who is next, who rests after a failure, who waits for something to change. Pure but for its state.

Active pods are taken in the order of the profile. A pod that no node takes waits until a change of the kind comes that one
of the plugins which refused it is helped by, and at most five minutes; then it is tried again, not before its back-off
ends. A failed bind backs off as well. Times are of the history, never of a clock.

Source: Kubernetes, "Scheduling Framework"; kube-scheduler's scheduling queue.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from enum import Enum
from heapq import heappop, heappush

import msgspec

from bus.clock import SECOND_US
from projections.cluster import Pod
from reactors.scheduling.hints import Hint

#: First and longest pause after a failure; each further one doubles it.
FIRST_BACKOFF_US = SECOND_US
LONGEST_BACKOFF_US = 10 * SECOND_US
#: After so long a pod is tried again though nothing came that should help.
FLUSH_US = 300 * SECOND_US

#: Sorts pods: who is smaller is next.
Order = Callable[[Pod, int], tuple[object, ...]]


class Place(Enum):
    """Where in the queue a pod is."""

    ACTIVE = "active"
    #: It rests after a failure until its time.
    BACKOFF = "backoff"
    #: It waits for a change that could help.
    UNSCHEDULABLE = "unschedulable"
    #: It may not be tried: a gate, or terms that are not known.
    GATED = "gated"


class Queued(msgspec.Struct):
    """A pod that waits. ``until_us``: end of its back-off, or when it is flushed; 0 = not bounded."""

    pod: Pod
    added_us: int
    place: Place = Place.ACTIVE
    attempts: int = 0
    #: When it failed last.
    failed_us: int = 0
    until_us: int = 0
    #: Plugins that refused nodes, and what helps them.
    refused_by: tuple[str, ...] = ()
    helped_by: frozenset[Hint] = frozenset()
    reason: str = ""
    #: Which entry of the queue's heaps is its own.
    turn: int = 0

    @property
    def backoff_ends_us(self) -> int:
        """Before this it is not tried again."""
        if not self.attempts:
            return 0
        doubled = FIRST_BACKOFF_US << min(self.attempts - 1, 8)
        return self.failed_us + min(doubled, LONGEST_BACKOFF_US)


class Queue:
    """The pods of one profile that wait."""

    def __init__(self, order: Order, gate: Callable[[Pod], str]) -> None:
        self._order = order
        self._gate = gate
        self._all: dict[str, Queued] = {}
        #: Heaps of (order, turn, uid) and (time, turn, uid): an entry counts while it has its pod's newest turn.
        self._active: list[tuple[tuple[object, ...], int, str]] = []
        self._timed: list[tuple[int, int, str]] = []
        self._turn = 0

    def __iter__(self) -> Iterator[Queued]:
        """All pods, in the order in which they would be taken."""
        return iter(sorted(self._all.values(), key=lambda one: self._order(one.pod, one.added_us)))

    def add(self, pod: Pod, since_us: int, at_us: int) -> None:
        """A pod waits, since ``since_us``, or was changed while it waits: it is tried at once unless it rests.

        A change of what decides nothing, of its status say, changes nothing.
        """
        one = self._all.get(pod.uid)
        if one is None:
            one = self._all[pod.uid] = Queued(pod, since_us)
        elif one.place is not Place.GATED and _terms(one.pod) == _terms(pod):
            one.pod = pod
            return
        one.pod = pod
        one.reason = self._gate(pod)
        if one.reason:
            self._put(one, Place.GATED, 0)
        else:
            self._wake(one, at_us)

    def remove(self, uid: str) -> None:
        """A pod waits no more: it was bound, or is gone."""
        self._all.pop(uid, None)

    def take(self, at_us: int) -> Queued | None:
        """The next pod to try; it counts as tried. None where nobody is active."""
        while self._timed and self._timed[0][0] <= at_us:
            _, turn, uid = heappop(self._timed)
            rested = self._all.get(uid)
            if rested is not None and rested.turn == turn:
                self._wake(rested, at_us)
        while self._active:
            _, turn, uid = heappop(self._active)
            one = self._all.get(uid)
            if one is not None and one.turn == turn:
                del self._all[uid]
                one.attempts += 1
                return one
        return None

    def refused(
        self,
        one: Queued,
        refused_by: Collection[str],
        helped_by: Iterable[Hint],
        reason: str,
        at_us: int,
    ) -> None:
        """No node takes a pod that was taken from the queue: it waits for what could help."""
        one.refused_by, one.helped_by = tuple(sorted(refused_by)), frozenset(helped_by)
        one.reason, one.failed_us = reason, at_us
        self._all[one.pod.uid] = one
        self._put(one, Place.UNSCHEDULABLE, at_us + FLUSH_US)

    def failed(self, one: Queued, reason: str, at_us: int) -> None:
        """Its bind failed, or it was rejected after it had a node: it rests and is tried again."""
        one.failed_us, one.reason = at_us, reason
        self._all[one.pod.uid] = one
        self._wake(one, at_us)

    def happened(self, hints: Collection[Hint], at_us: int) -> None:
        """The cluster changed: who may be helped by that is tried again."""
        for one in self._all.values():
            if one.place is Place.UNSCHEDULABLE and not one.helped_by.isdisjoint(hints):
                self._wake(one, at_us)

    def _wake(self, one: Queued, at_us: int) -> None:
        ends = one.backoff_ends_us
        if ends > at_us:
            self._put(one, Place.BACKOFF, ends)
        else:
            self._put(one, Place.ACTIVE, 0)

    def _put(self, one: Queued, place: Place, until_us: int) -> None:
        self._turn += 1
        one.place, one.until_us, one.turn = place, until_us, self._turn
        if place is Place.ACTIVE:
            heappush(self._active, (self._order(one.pod, one.added_us), one.turn, one.pod.uid))
        elif until_us:
            heappush(self._timed, (until_us, one.turn, one.pod.uid))


def _terms(pod: Pod) -> tuple[object, ...]:
    """What of a waiting pod decides when and where it is placed."""
    return (pod.priority, pod.demand, pod.unrequested, pod.constraints, pod.labels, pod.node)
