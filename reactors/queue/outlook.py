"""The outlook of a waiting workload: its place, the amounts that it waits for, and its latest start. Pure.

The estimate takes every deadline of what runs for its end, and everybody ahead for one who comes first: it is late rather than
early, and there is none where what runs has no deadlines.

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
from reactors.queue.shape import Running, Waiting, ordered


class Outlook(msgspec.Struct, frozen=True):
    """One that waits. ``place``: 1 = the first; 0 = a person or its quota keeps it from coming at all."""

    place: int
    waiting: Waiting
    #: What would be answered now if it were alone; its deficits are what it waits for.
    answer: AdmissionDecided
    #: When it will have started by the deadlines of what runs; None = unknown.
    starts_us: int | None


def outlooks(
    tree: Tree, waiting: Iterable[Waiting], running: Iterable[Running], now_us: int
) -> list[Outlook]:
    """Everybody in one quota's queue, the first one first; at the end those that do not come."""
    every, ends = list(waiting), list(running)
    ahead, found = TreeOverlay(tree), []
    for place, one in enumerate(ordered(every), 1):
        starts_us: int | None = now_us
        behind = decide(ahead, one.request, now_us)
        if behind.verdict != "admitted":
            # Ends make room; nothing says when a budget has more, or who may use the quota.
            is_room = behind.reason == "over-quota"
            starts_us = could_start_us(ahead, one, ends) if is_room else None
        if starts_us is not None:
            # What runs beyond its deadline ends at any moment.
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
