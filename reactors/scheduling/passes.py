"""A pass over the queue: each pod gets a node, or waits. Pure but for its state.

What a pass decides is assumed until it is confirmed or taken back. A pod that got its node is counted on the columns at
once, so the next one sees what is left. Who fails after that is unreserved by every plugin, also by those that were never
asked, the last one first.

Source: Kubernetes, "Scheduling Framework".
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from projections.cluster import Change, Pod
from reactors.scheduling.columns import Columns, holds
from reactors.scheduling.contract import Cycle
from reactors.scheduling.explaining import Explanation, explained
from reactors.scheduling.framework import Framework
from reactors.scheduling.hints import Hint, hints_of
from reactors.scheduling.profiles import Profile
from reactors.scheduling.queue import Queue, Queued


class Attempt(msgspec.Struct, frozen=True):
    """What became of one pod in a pass. ``node`` "" = it waits, for ``why``."""

    pod: Pod
    node: str
    why: Explanation | None = None
    reason: str = ""


class Scheduler:
    """The queue of one profile over one cluster's columns."""

    def __init__(self, profile: Profile, columns: Columns) -> None:
        self.framework = Framework(profile, columns)
        self.queue = Queue(self.framework.order, self.framework.pre_enqueue)
        #: Pods with a node that nobody has confirmed yet.
        self.assumed: dict[str, tuple[Queued, Cycle]] = {}

    def begin(self, pods: Iterable[Pod], at_us: int) -> None:
        """Queue whoever waits already."""
        for pod in pods:
            self._seen(pod, at_us)

    def follow(self, changes: Iterable[Change], at_us: int) -> None:
        """The cluster changed, and the columns followed: who waits, who is confirmed, who may be helped."""
        hints: set[Hint] = set()
        for change in changes:
            hints.update(hints_of(change))
            pod = change.after
            if isinstance(pod, Pod):
                self._seen(pod, at_us)
            elif isinstance(change.before, Pod):
                self._left(change.uid, at_us)
        if hints:
            self.queue.happened(hints, at_us)

    def _seen(self, pod: Pod, at_us: int) -> None:
        if holds(pod):
            self.queue.remove(pod.uid)
            self.assumed.pop(pod.uid, None)
        elif pod.is_ended or pod.is_terminating:
            self._left(pod.uid, at_us)
        elif pod.uid not in self.assumed and self.framework.profile.takes(pod):
            self.queue.add(pod, pod.started_us, at_us)

    def _left(self, uid: str, at_us: int) -> None:
        """A pod goes, or is gone, before it was bound: nobody binds it any more."""
        self.queue.remove(uid)
        self._forget(uid, at_us)

    def _forget(self, uid: str, at_us: int) -> Queued | None:
        """Take an assumed pod off its node, which may help others; None where it is not assumed any more."""
        found = self.assumed.pop(uid, None)
        if found is None:
            return None
        one, cycle = found
        self.framework.unreserve(cycle)
        self.framework.columns.take_back(uid)
        self.queue.happened({Hint.GONE}, at_us)
        return one

    def run(self, sequence: int, at_us: int, most: int) -> list[Attempt]:
        """Try at most so many pods that are due, the next one first. ``sequence``: what is known is the history up to it."""
        done: list[Attempt] = []
        while len(done) < most:
            one = self.queue.take(at_us)
            if one is None:
                break
            done.append(self._try(one, sequence, at_us))
        return done

    def _try(self, one: Queued, sequence: int, at_us: int) -> Attempt:
        framework, pod = self.framework, one.pod
        cycle = Cycle(pod, framework.columns)
        choice = framework.choose(cycle, sequence)
        if choice.row < 0:
            why = explained(framework, pod, sequence)
            helped = framework.helped_by(why.refused)
            self.queue.refused(one, why.refused, helped, why.message, at_us)
            return Attempt(pod, "", why, why.message)
        node = framework.columns.names[choice.row]
        framework.columns.place(pod, node, framework.cards(cycle, choice.row))
        self.assumed[pod.uid] = (one, cycle)
        rejected = framework.reserve(cycle, choice.row)
        if rejected:
            self.take_back(pod.uid, rejected, at_us)
            return Attempt(pod, "", None, rejected)
        return Attempt(pod, node)

    def take_back(self, uid: str, reason: str, at_us: int) -> None:
        """A pod does not get its node after all: it leaves no trace there, and is tried again later.

        Nothing where it was confirmed or went meanwhile.
        """
        one = self._forget(uid, at_us)
        if one is not None:
            self.queue.failed(one, reason, at_us)
