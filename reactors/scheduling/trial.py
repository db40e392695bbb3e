"""What a pass would decide now: every pod that is due is tried, and then all is taken back. Pure.

Each pod that gets a node is counted there at once, so the next one sees what is left. Who fails after its node was chosen is
unreserved by every plugin, also by those that were never asked, the last one first.

Source: Kubernetes, "Scheduling Framework"; docs/scheduling.md.
"""

from __future__ import annotations

import msgspec

from projections.cluster import Pod
from reactors.scheduling.contract import Cycle
from reactors.scheduling.explaining import Candidate, best
from reactors.scheduling.framework import Framework
from reactors.scheduling.messages import unschedulable
from reactors.scheduling.passes import Scheduler
from reactors.scheduling.queue import Queued


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


def attempts(
    scheduler: Scheduler, sequence: int, at_us: int, most: int
) -> dict[str, list[Attempt]]:
    """What becomes of the pods that are due, at most so many, by profile. ``sequence``: the newest event that is known."""
    found: dict[str, list[Attempt]] = {}
    tried: list[tuple[Framework, Cycle]] = []
    try:
        for name, queue in scheduler.queues.items():
            due = queue.due(at_us, most)
            most -= len(due)
            if due:
                framework = scheduler.frameworks[name]
                found[name] = [_tried(framework, one, sequence, tried) for one in due]
    finally:
        for framework, cycle in reversed(tried):
            framework.unreserve(cycle)
            framework.columns.take_back(cycle.pod.uid)
    return found


def _tried(
    framework: Framework, one: Queued, sequence: int, tried: list[tuple[Framework, Cycle]]
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
    message = unschedulable(choice.refused, len(columns.names), reason)
    reasons = {name: tuple(found) for name, found in choice.refused.items()}
    if reasons and not reason:
        is_again = one.refused_by == reasons
    else:
        is_again = one.attempts > 0 and one.reason == message
    return Attempt(
        pod, one.number, "", 0, choice.refused, reason, message=message, is_again=is_again
    )
