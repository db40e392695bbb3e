"""The queue of waiting pods: the next pod, resting pods, and pods waiting for a change. Pure but for its state.

It is a fold: due pods are read without a change, and the result of an attempt counts when its pass is read.

Active pods are taken in the order of the profile. A pod refused by every node waits for a possibly helpful change: each refusing
plugin names kinds of such changes. After five minutes it is tried again in any case. It is never tried before its back-off ends. A
failed bind backs off as well. Times are of the history, never of a clock.

Source: Kubernetes, "Scheduling Framework"; kube-scheduler's scheduling queue.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from enum import Enum
from heapq import heapify, heappop, heappush, nsmallest
from typing import TypeVar

import msgspec

from bus.clock import SECOND_US
from projections.cluster import Pod
from projections.cluster.volumes import ClaimKey, claims_of
from reactors.scheduling.queueing.hints import Hint
from reactors.scheduling.shape import WaitingPod

#: First and longest pause after a failure; each further one doubles it.
FIRST_BACKOFF_US = SECOND_US
LONGEST_BACKOFF_US = 10 * SECOND_US
#: After so long a pod is tried again without a helpful change.
FLUSH_US = 300 * SECOND_US

#: The sort key of pods: the smallest is next.
Order = Callable[[Pod, int], tuple[object, ...]]


class Place(Enum):
    """The state of a pod in the queue."""

    ACTIVE = "active"
    #: It rests after a failure until its time.
    BACKOFF = "backoff"
    #: It waits for a possibly helpful change.
    UNSCHEDULABLE = "unschedulable"
    #: It may not be tried: it has a gate, or unknown terms.
    GATED = "gated"


class Queued(msgspec.Struct):
    """A waiting pod. ``until_us``: end of its back-off, or the time of its flush; 0 = not bounded."""

    pod: Pod
    added_us: int
    #: Its number in the queue: no other pod had it.
    number: int = 0
    place: Place = Place.ACTIVE
    attempts: int = 0
    #: The time of its last failure.
    failed_us: int = 0
    until_us: int = 0
    #: By plugin: its reasons for refusing nodes. And the hints for these plugins.
    refused_by: dict[str, tuple[str, ...]] = {}
    helped_by: frozenset[Hint] = frozenset()
    reason: str = ""
    #: Its own entry in the queue's heap.
    turn: int = 0

    @property
    def backoff_ends_us(self) -> int:
        """The end of its back-off."""
        if not self.attempts:
            return 0
        doubled = FIRST_BACKOFF_US << min(self.attempts - 1, 8)
        return self.failed_us + min(doubled, LONGEST_BACKOFF_US)

    @property
    def rests_until_us(self) -> int:
        """The end of its rest: of the back-off, or of a longer pause."""
        return max(self.backoff_ends_us, self.until_us * (self.place is Place.BACKOFF))


class Queue:
    """The waiting pods of one profile."""

    def __init__(self, order: Order, gate: Callable[[Pod], str]) -> None:
        self._order = order
        self._gate = gate
        self._all: dict[str, Queued] = {}
        self._numbers: dict[int, str] = {}
        #: Pods allowed to be tried: uids in the place of an ordered set.
        self._active: dict[str, None] = {}
        #: Pods not allowed to be tried, in the same way.
        self.gated: dict[str, None] = {}
        #: A heap of (time, turn, uid): an entry counts while it has its pod's newest turn.
        self._timed: list[tuple[int, int, str]] = []
        #: Pods possibly helped by a kind of change: uids in the place of an ordered set.
        self._helped: dict[Hint, dict[str, None]] = {}
        #: The pods here with each claim.
        self._claiming: dict[ClaimKey, dict[str, None]] = {}
        self._turn = 0
        #: The number of the next arriving pod.
        self.number = 1

    def __iter__(self) -> Iterator[Queued]:
        """All pods, in the order of their turns."""
        return iter(sorted(self._all.values(), key=self.turn_of))

    def places(self) -> Iterator[str]:
        """The state of each pod, in no order."""
        return (one.place.value for one in self._all.values())

    def get(self, uid: str) -> Queued | None:
        """The waiting pod; None if it does not wait."""
        return self._all.get(uid)

    def numbered(self, number: int) -> Queued | None:
        """The pod of this number; None if it waits no more."""
        return self._all.get(self._numbers.get(number, ""))

    def add(self, pod: Pod, since_us: int, at_us: int) -> None:
        """Add a pod waiting since ``since_us``, or changed while waiting: it is tried at once unless it rests.

        A change without influence on placement, for example of its status, changes nothing.
        """
        one = self._all.get(pod.uid)
        if one is None:
            one = Queued(pod, since_us, self.number)
            self.number += 1
            self._put_back(one)
        elif one.place is not Place.GATED and _terms(one.pod) == _terms(pod):
            one.pod = pod
            return
        one.pod = pod
        one.reason = self._gate(pod)
        if one.reason:
            self._put(one, Place.GATED, 0)
        else:
            self._wake(one, at_us)

    def saved(self) -> list[WaitingPod]:
        """The part of a snapshot for the pods."""
        return [
            WaitingPod(
                one.pod.uid, one.added_us, one.number, one.place.value, one.attempts, one.failed_us, one.until_us,
                one.refused_by, sorted(hint.value for hint in one.helped_by), one.reason,
            )
            for one in self._all.values()
        ]  # fmt: skip

    def restore(self, saved: Iterable[WaitingPod], number: int, pods: Mapping[str, Pod]) -> None:
        """Restore a saved state into a new queue. Raises KeyError or ValueError for an invalid one."""
        self.number = number
        for one in saved:
            self._put_back(
                Queued(
                    pods[one.uid], one.added_us, one.number, Place(one.place), one.attempts, one.failed_us, one.until_us,
                    one.refused_by, frozenset(map(Hint, one.helped_by)), one.reason,
                )
            )  # fmt: skip

    def remove(self, uid: str) -> Queued | None:
        """Remove a bound or deleted pod. None if it did not wait."""
        one = self._all.pop(uid, None)
        if one is not None:
            self._numbers.pop(one.number, None)
            self._active.pop(uid, None)
            self.gated.pop(uid, None)
            for key in claims_of(one.pod):
                _enter(self._claiming, key, uid, is_in=False)
        return one

    def due(
        self, at_us: int, most: int, rests: Callable[[Queued], bool] = lambda one: False
    ) -> list[Queued]:
        """The pods to try, at most so many, the next one first, without the resting ones by ``rests``.

        It makes no observable change.
        """
        self._forget_old()
        uids = (*self._active, *self._rested(at_us))
        found = [one for uid in uids if not rests(one := self._all[uid])]
        return nsmallest(most, found, key=self.turn_of)

    def refused(
        self,
        one: Queued,
        refused_by: Mapping[str, Iterable[str]],
        helped_by: Iterable[Hint],
        reason: str,
        at_us: int,
    ) -> None:
        """A pod was refused by every node: it waits for a helpful change."""
        one.attempts += 1
        one.refused_by = {name: tuple(reasons) for name, reasons in refused_by.items()}
        one.helped_by = frozenset(helped_by)
        one.reason, one.failed_us = reason, at_us
        self._put(one, Place.UNSCHEDULABLE, at_us + FLUSH_US)

    def failed(self, one: Queued, reason: str, at_us: int) -> None:
        """Its bind failed, or it was rejected after its placement: it rests and is tried again."""
        one.attempts += 1
        one.failed_us, one.reason = at_us, reason
        self._put_back(one)
        self._wake(one, at_us)

    def rejected(self, one: Queued, reason: str, at_us: int, rest_us: int) -> None:
        """It waited at Permit in vain: it rests, for ``rest_us`` at least."""
        one.attempts += 1
        one.failed_us, one.reason = at_us, reason
        self._put_back(one)
        self._put(one, Place.BACKOFF, max(one.backoff_ends_us, at_us + rest_us))

    def rest(self, uid: str, until_us: int) -> None:
        """Hold a pod back until a time, even after helpful changes; nothing if it may not be tried at all."""
        one = self._all.get(uid)
        if one is None or one.place is Place.GATED:
            return
        if one.place is not Place.BACKOFF or one.until_us < until_us:
            self._put(one, Place.BACKOFF, until_us)

    def regate(self, uid: str, at_us: int) -> None:
        """Check again whether a pod may be tried."""
        one = self._all.get(uid)
        if one is None:
            return
        reason = self._gate(one.pod)
        if reason:
            one.reason = reason
            self._put(one, Place.GATED, 0)
        elif one.place is Place.GATED:
            one.reason = ""
            self._wake(one, at_us)

    def happened(
        self, hints: Collection[Hint], at_us: int, claims: Collection[ClaimKey] = ()
    ) -> None:
        """The cluster changed: pods possibly helped are tried again. A claim helps only its own pods."""
        for hint in hints:
            if hint is not Hint.CLAIM:
                self._wake_all(self._helped.pop(hint, ()), at_us)
        for key in claims:
            who = self._claiming.get(key, ())
            self._wake_all([uid for uid in who if Hint.CLAIM in self._all[uid].helped_by], at_us)

    def woken(self, uids: Iterable[str], at_us: int) -> None:
        """Pods waiting for a change are tried again, after their back-off."""
        self._wake_all(uids, at_us)

    def helped_by(self, hint: Hint) -> Collection[str]:
        """The pods possibly helped by a kind of change."""
        return self._helped.get(hint, {})

    def names(self, claim: ClaimKey) -> bool:
        """Whether a pod here names a claim."""
        return claim in self._claiming

    def _wake_all(self, uids: Iterable[str], at_us: int) -> None:
        for uid in list(uids):
            one = self._all.get(uid)
            if one is not None and one.place is Place.UNSCHEDULABLE:
                self._wake(one, at_us)

    def _put_back(self, one: Queued) -> None:
        self._all[one.pod.uid] = one
        self._numbers[one.number] = one.pod.uid
        for key in claims_of(one.pod):
            _enter(self._claiming, key, one.pod.uid, is_in=True)
        self._put(one, one.place, one.until_us)

    def turn_of(self, one: Queued) -> tuple[object, ...]:
        """The sort key of pods in passes."""
        return self._order(one.pod, one.added_us)

    def _is_newest(self, uid: str, turn: int) -> bool:
        one = self._all.get(uid)
        return one is not None and one.turn == turn

    def _rested(self, at_us: int) -> Iterator[str]:
        """Pods at the end of their rest: the entries of a heap up to a time, together at its top."""
        places = [0]
        while places:
            at = places.pop()
            if at < len(self._timed) and self._timed[at][0] <= at_us:
                _, turn, uid = self._timed[at]
                if self._is_newest(uid, turn):
                    yield uid
                places += (2 * at + 1, 2 * at + 2)

    def _forget_old(self) -> None:
        """Drop outdated entries: at the top, and all of them once they are the majority."""
        while self._timed and not self._is_newest(self._timed[0][2], self._timed[0][1]):
            heappop(self._timed)
        if len(self._timed) > 2 * len(self._all) + 64:
            self._timed = [one for one in self._timed if self._is_newest(one[2], one[1])]
            heapify(self._timed)

    def _wake(self, one: Queued, at_us: int) -> None:
        if (ends := one.rests_until_us) > at_us:
            self._put(one, Place.BACKOFF, ends)
        else:
            self._put(one, Place.ACTIVE, 0)

    def _put(self, one: Queued, place: Place, until_us: int) -> None:
        self._turn += 1
        one.place, one.until_us, one.turn = place, until_us, self._turn
        for uids, of in ((self._active, Place.ACTIVE), (self.gated, Place.GATED)):
            if place is of:
                uids[one.pod.uid] = None
            else:
                uids.pop(one.pod.uid, None)
        if until_us:
            heappush(self._timed, (until_us, one.turn, one.pod.uid))
        helped_by = one.helped_by if place is Place.UNSCHEDULABLE else frozenset()
        for hint in Hint:
            _enter(self._helped, hint, one.pod.uid, is_in=hint in helped_by)


K = TypeVar("K")


def _enter(known: dict[K, dict[str, None]], key: K, uid: str, *, is_in: bool) -> None:
    """Put a pod under a key, or take it from there. A key without pods takes no room."""
    if is_in:
        known.setdefault(key, {})[uid] = None
    elif (found := known.get(key)) is not None:
        found.pop(uid, None)
        if not found:
            del known[key]


def _terms(pod: Pod) -> tuple[object, ...]:
    """The fields of a waiting pod with influence on its placement."""
    return (pod.priority, pod.demand, pod.unrequested, pod.constraints, pod.labels, pod.node)
