"""The outlook of a waiting workload: its place, the missing amounts, and its latest start. Pure.

The estimate assumes that running workloads end at their deadlines, and that all workloads ahead start first. So it is late
rather than early. Without deadlines of running workloads there is none.

Source: docs/queues.md.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from bus.clock import SECOND_US
from bus.events.admissions import AdmissionDecided
from projections.quota_trees import Tree, TreeOverlay
from reactors.admission.deciding.decide import adopt, decide
from reactors.queue.decide import could_start_us
from reactors.queue.shape import Running, WaitingWorkload, ordered


class Outlook(msgspec.Struct, frozen=True):
    """One waiting workload. ``place``: 1 = the first; 0 = a person or its quota blocks it."""

    place: int
    waiting: WaitingWorkload
    #: The answer to it alone now, without the queue; its deficits are the missing amounts.
    answer: AdmissionDecided
    #: Its latest start by the deadlines of running workloads; None = unknown.
    starts_us: int | None


def outlooks(
    tree: Tree, waiting: Iterable[WaitingWorkload], running: Iterable[Running], now_us: int
) -> list[Outlook]:
    """The outlooks of one quota's queue, the first workload first; blocked ones at the end."""
    every, ends = list(waiting), list(running)
    ahead, found = TreeOverlay(tree), []
    for place, one in enumerate(ordered(every), 1):
        starts_us: int | None = now_us
        behind = decide(ahead, one.request, now_us)
        if behind.verdict != "admitted":
            # Ends make room. The time of a new budget or of a right to the quota is unknown.
            is_room = behind.reason == "over-quota"
            starts_us = could_start_us(ahead, one, ends) if is_room else None
        if starts_us is not None:
            # A workload beyond its deadline ends at any moment.
            starts_us = max(starts_us, now_us)
        answer = decide(TreeOverlay(tree), one.request, now_us, one.refusal)
        found.append(Outlook(place, one, answer, starts_us))
        if (taken := adopt(ahead, one.request, "ahead")) is not None:
            ahead.add(taken, now_us)
            if starts_us is not None and one.deadline_s is not None:
                ends_us = starts_us + one.deadline_s * SECOND_US
                ends.append(Running(one.uid, taken.charge, ends_us))
    for one in sorted((w for w in every if w.is_stopped or w.refusal), key=lambda w: w.place):
        answer = decide(TreeOverlay(tree), one.request, now_us, one.refusal)
        found.append(Outlook(0, one, answer, None))
    return found
