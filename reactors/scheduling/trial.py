"""What a pass would decide now: every pod that is due is tried, and then all is taken back. Pure.

Each pod that gets a node is counted there at once, so the next one sees what is left. Who fails after its node was chosen is
unreserved by every plugin, also by those that were never asked, the last one first.

For a pod that no node takes victims are searched, unless room is being made for it already. Its node is held for it from
then on. A search looks at many pods, so a pass ends after a few of them, and the next one goes on; of pods that are alike one is
searched for.

Source: Kubernetes, "Scheduling Framework"; docs/scheduling.md.
"""

from __future__ import annotations

from collections.abc import Hashable

import msgspec

from projections.cluster import Pod
from reactors.scheduling.columns import Columns, Placed
from reactors.scheduling.contract import Cycle, Preemption
from reactors.scheduling.explaining import Candidate, best
from reactors.scheduling.framework import Framework
from reactors.scheduling.messages import unschedulable
from reactors.scheduling.passes import Scheduler
from reactors.scheduling.queue import Queued

#: After so many searches for victims a pass ends.
MOST_SEARCHES = 4


class Attempt(msgspec.Struct, frozen=True):
    """What becomes of one pod in a pass. ``node`` "" = it waits."""

    pod: Pod
    number: int
    node: str
    feasible: int
    #: By plugin and reason: nodes that were refused.
    refused: dict[str, dict[str, int]]
    #: Why no node was looked at, or why its node was not reserved.
    reason: str = ""
    top: tuple[Candidate, ...] = ()
    cards: tuple[int, ...] = ()
    #: As kube-scheduler writes it; "" where it gets a node.
    message: str = ""
    #: It was refused for the same reasons as the last time.
    is_again: bool = False
    #: Where others have to go for it.
    preemption: Preemption | None = None


def attempts(
    scheduler: Scheduler, sequence: int, at_us: int, most: int, *, preempts: bool = True
) -> dict[str, list[Attempt]]:
    """What becomes of the pods that are due, at most so many, by profile. ``sequence``: the newest event that is known.

    ``preempts``: victims are searched, where the policy says so.
    """
    found: dict[str, list[Attempt]] = {}
    tried: list[tuple[Framework, Cycle]] = []
    nominated = dict(scheduler.columns.nominated)
    searches = Searches(scheduler, sequence, at_us, is_on=preempts)
    try:
        for name, queue in scheduler.queues.items():
            due = queue.due(at_us, most)
            most -= len(due)
            if due and not searches.are_over:
                framework = scheduler.frameworks[name]
                found[name] = attempted = []
                for one in due:
                    if searches.are_over:
                        break
                    attempted.append(_tried(framework, one, sequence, tried, searches))
    finally:
        scheduler.columns.nominated = nominated
        for framework, cycle in reversed(tried):
            framework.unreserve(cycle)
            framework.columns.take_back(cycle.pod.uid)
    return found


class Searches:
    """The searches for victims of one pass."""

    def __init__(self, scheduler: Scheduler, sequence: int, at_us: int, *, is_on: bool) -> None:
        self._nominations, self._columns = scheduler.nominations, scheduler.columns
        self._is_on = is_on and scheduler.preemption != "off"
        self._holds = scheduler.preemption == "on" and not scheduler.is_shadow
        self._sequence, self._sparing = sequence, scheduler.nominations.sparing(at_us)
        self._left = MOST_SEARCHES
        self._in_vain: set[Hashable] = set()

    @property
    def are_over(self) -> bool:
        """Whether the pass has searched enough."""
        return not self._left

    def search(self, framework: Framework, cycle: Cycle) -> Preemption | None:
        """Who has to go for a pod that no node takes; its node is held for it from now on. None = nobody."""
        pod, columns = cycle.pod, self._columns
        if not self._is_on or min(columns.priorities, default=pod.priority) >= pod.priority:
            return None
        kind = framework.kind(cycle)
        if kind in self._in_vain or self._nominations.awaits(pod.uid, framework, cycle):
            return None
        found = framework.post_filter(cycle, self._sequence, self._sparing)
        # Where a plugin forbids it, nobody was searched for.
        self._left -= found is not None
        if found is None or not found.node:
            self._in_vain.add(kind)
            return None
        if self._holds:
            hold(columns, pod, found.node)
        return found


def hold(columns: Columns, pod: Pod, node: str) -> None:
    """Hold a node for a pod from now on; less important pods hold it no more."""
    kept = {
        uid: one
        for uid, one in columns.nominated.items()
        if one.node != node or one.pod.priority >= pod.priority
    }
    columns.nominated = kept | {pod.uid: Placed(pod, node)}


def _tried(
    framework: Framework,
    one: Queued,
    sequence: int,
    tried: list[tuple[Framework, Cycle]],
    searches: Searches,
) -> Attempt:
    pod, columns = one.pod, framework.columns
    cycle = Cycle(pod, columns)
    choice = framework.choose(cycle, sequence)
    reason = choice.reason
    if choice.row >= 0:
        node = columns.names[choice.row]
        cards = framework.cards(cycle, choice.row)
        columns.place(pod, node, cards)
        tried.append((framework, cycle))
        reason = framework.reserve(cycle, choice.row)
        if not reason:
            top = tuple(best(columns, choice))
            return Attempt(pod, one.number, node, choice.rows.size, choice.refused, "", top, cards)
        framework.unreserve(cycle)
        columns.take_back(pod.uid)
        tried.pop()
    preemption = searches.search(framework, cycle) if not reason else None
    message = unschedulable(choice.refused, len(columns.names), reason)
    reasons = {name: tuple(found) for name, found in choice.refused.items()}
    if reasons and not reason:
        is_again = one.refused_by == reasons
    else:
        is_again = one.attempts > 0 and one.reason == message
    return Attempt(
        pod, one.number, "", 0, choice.refused, reason, message=message, is_again=is_again,
        preemption=preemption,
    )  # fmt: skip
