"""Queues of one tree under trial: waiting workloads, with their starts and returns by the live rules.

A quota may lose its queue under trial. Its workloads are then requested again: each fitting one starts, the oldest first. Pure but
for its own state.

Source: docs/lab.md; docs/queues.md.
"""

from __future__ import annotations

import msgspec

from bus.clock import SECOND_US
from bus.events.admissions import AdmissionDecided
from bus.events.quotas import Queue
from projections.quota_trees import Tree, TreeOverlay
from reactors.lab.quotas.shape import Arrived, Queued, Reordered
from reactors.queue.decide import decide_releases, decide_returns
from reactors.queue.demand import unmet
from reactors.queue.plan import WINDOW
from reactors.queue.shape import Running, WaitingWorkload, ordered

#: No workload delays another: a thousand years.
_ANYBODY = Queue(hold=True, order="BackFill", max_head_delay_seconds=1_000 * 365 * 86_400)

#: Elastic trees count unmet requests as seldom as live.
COUNTED_US = 10 * SECOND_US


class Lines:
    """Workloads observed as held, by quota and uid."""

    def __init__(self) -> None:
        self._waiting: dict[str, dict[str, WaitingWorkload]] = {}
        #: Of started workloads: their wait, their start, and the workloads passed.
        self._started: dict[str, tuple[WaitingWorkload, int, str]] = {}
        self._known: set[str] = set()
        self._returned: set[str] = set()
        self._counted_us = 0

    def apply(self, fact: Queued) -> None:
        """Read an arrival, an end, or a move by a person."""
        if isinstance(fact, Arrived):
            self._known.add(fact.waiting.uid)
            self._waiting.setdefault(fact.quota, {})[fact.waiting.uid] = fact.waiting
            return
        line = self._waiting.get(fact.quota, {})
        if fact.uid in line and isinstance(fact, Reordered):
            line[fact.uid] = msgspec.structs.replace(
                line[fact.uid], priority=fact.priority, is_stopped=fact.is_stopped
            )
        elif not isinstance(fact, Reordered):
            line.pop(fact.uid, None)

    def is_known(self, uid: str) -> bool:
        """Whether it was ever observed waiting."""
        return uid in self._known

    def has_returned(self, uid: str) -> bool:
        """Whether it had to wait again."""
        return uid in self._returned

    def of(self, quota: str, uid: str) -> WaitingWorkload:
        """A waiting workload. Raises KeyError."""
        return self._waiting[quota][uid]

    def waiting(self) -> list[tuple[str, str]]:
        """(quota, uid) of all waiting workloads."""
        return [(quota, uid) for quota, line in self._waiting.items() for uid in line]

    def start(self, quota: str, uid: str, at_us: int, passed: str) -> None:
        """End its wait."""
        waiting = self._waiting.get(quota, {}).pop(uid, None)
        if waiting is not None:
            self._started[uid] = (waiting, at_us, passed)

    def stop(self, quota: str, uid: str) -> None:
        """Make it wait again, if it was ever observed waiting."""
        if uid in self._started:
            waiting, _, _ = self._started.pop(uid)
            self._returned.add(uid)
            self._waiting.setdefault(quota, {})[uid] = waiting

    def end(self, uid: str) -> None:
        """Record the end of its run."""
        self._started.pop(uid, None)

    def count(self, tree: Tree, at_us: int) -> None:
        """Have an elastic tree count its unmet requests: the waiting and the refused workloads."""
        if tree.elastic.is_used and at_us >= self._counted_us + COUNTED_US:
            self._counted_us = at_us
            tree.refused.elapse(at_us)
            lines = (ordered(line.values()) for line in self._waiting.values())
            tree.count([unmet(tree, one) for line in lines for one in line])

    def bound_us(self, tree: Tree, one: Arrived) -> int:
        """The end of the delay allowed to back-fill for a workload; 0 = no such moment."""
        delay = _rules(tree, one.quota).max_head_delay_seconds
        return one.waiting.created_us + delay * SECOND_US if delay else 0

    def releases(self, tree: Tree, quota: str, now_us: int) -> list[AdmissionDecided]:
        """The workloads of a quota to start now, in order."""
        line = self._waiting.get(quota)
        if not line:
            return []
        return decide_releases(
            TreeOverlay(tree), line.values(), _rules(tree, quota), self._running(tree, quota), now_us,
            most=WINDOW,
        )  # fmt: skip

    def returns(self, tree: Tree, quota: str, now_us: int) -> list[str]:
        """The workloads of a quota to stop and queue again."""
        line = self._waiting.get(quota)
        if not line or not any(passed for _, _, passed in self._started.values()):
            return []
        return decide_returns(
            TreeOverlay(tree),
            line.values(),
            _rules(tree, quota),
            self._running(tree, quota),
            now_us,
        )

    def _running(self, tree: Tree, quota: str) -> list[Running]:
        found = []
        for uid, grant in tree.nodes[quota].grants.items():
            waited, started_us, passed = self._started.get(uid, (None, 0, ""))
            deadline_s = waited.deadline_s if waited is not None else None
            ends_us = started_us + deadline_s * SECOND_US if deadline_s is not None else None
            if grant.charge:
                found.append(Running(uid, grant.charge, ends_us, passed))
        return found


def _rules(tree: Tree, quota: str) -> Queue:
    node = tree.nodes.get(quota)
    return node.spec.queue if node is not None and node.spec.queue.hold else _ANYBODY
