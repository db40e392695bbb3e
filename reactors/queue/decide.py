"""The workloads in a queue that may start now. Pure.

The *head* of a queue is the first workload that does not fit. Strict: later workloads wait behind it. Back-fill: a later
workload passes it

- with a deadline, if it ends before the head could start by the deadlines of running workloads, and before the head has
  waited ``maxHeadDelay``;
- without a deadline, until the head has waited ``maxHeadDelay``. Then it is taken back (:func:`decide_returns`) if the
  head would fit without it.

So back-fill delays the head's start by at most ``maxHeadDelay``. After this delay, no workload that
passed the head holds quota needed by it. The second bound on deadlines covers early ends of other workloads: the
head could start then, while the passing workload would still run. (Refused: no taking back. The run time of
a workload without a deadline is unknown, so no promise about the head would hold.)

A release is a request like any other, decided by the same rules: all keys fit, or nothing is charged.

Source: EASY back-fill (Lifka 1995) for the head's earliest start.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from bus.clock import SECOND_US
from bus.events.admissions import AdmissionDecided, Basis
from bus.events.quotas import Queue
from projections.quota_trees import TreeNode, TreeOverlay, charged
from reactors.admission.deciding.decide import covers, decide
from reactors.queue.shape import Running, WaitingWorkload, ordered

#: Reasons that pass by themselves. A workload refused for another reason waits for a person, and blocks no other.
PASSING = frozenset({"over-quota", "budget-exhausted"})

#: How many of a queue are looked at in one pass; the others come when these have gone.
DEPTH = 1_000


class QueueHead(msgspec.Struct, frozen=True):
    """The first workload that does not fit. ``starts_us``: its possible
    start by the deadlines of running workloads; None = unknown."""

    uid: str
    starts_us: int | None
    #: When it will have waited as long as back-fill may delay it.
    bound_us: int


def decide_releases(
    draft: TreeOverlay,
    waiting: Iterable[WaitingWorkload],
    queue: Queue,
    running: Iterable[Running],
    now_us: int,
    *,
    based_on: int = 0,
    most: int = DEPTH,
    window: int = 0,
) -> list[AdmissionDecided]:
    """Those of one quota's ``waiting`` workloads that start now, in order, at most ``most``; each is added to ``draft``.

    ``window``: recorded in each release. ``running``: the holders of the quota; only read for back-fill.
    """
    releases: list[AdmissionDecided] = []
    head: QueueHead | None = None
    for one in ordered(waiting)[:DEPTH]:
        if len(releases) >= most:
            break
        if head is not None and not _may_pass(one, head, now_us):
            continue
        answer = decide(draft, one.request, now_us)
        if answer.verdict == "admitted":
            passed = head.uid if head is not None else ""
            basis = answer.basis
            if window:
                basis = msgspec.structs.replace(basis or Basis(), window=window)
            release = msgspec.structs.replace(
                answer, reason="released", passed=passed, based_on=based_on, basis=basis
            )
            draft.add(release, now_us)
            releases.append(release)
        elif head is None and answer.reason in PASSING:
            delay_us = queue.max_head_delay_seconds * SECOND_US
            if queue.order == "Strict" or not delay_us:
                break
            head = QueueHead(
                one.uid, could_start_us(draft, one, running), one.created_us + delay_us
            )
    return releases


def _may_pass(one: WaitingWorkload, head: QueueHead, now_us: int) -> bool:
    if one.deadline_s is None:
        return now_us < head.bound_us
    ends_us = now_us + one.deadline_s * SECOND_US
    return ends_us <= head.bound_us and (head.starts_us is None or ends_us <= head.starts_us)


def could_start_us(
    draft: TreeOverlay, head: WaitingWorkload, running: Iterable[Running]
) -> int | None:
    """The time at which enough deadlines have passed for ``head`` to fit; None if that never happens."""
    node = draft.node(head.request.quota)
    if node is None:
        return None
    missing = _missing(draft, node, head)
    if not missing:
        # Another obstacle, for example a spent budget: ends of running workloads do not help.
        return None
    ending = [(one.ends_us, one.charge) for one in running if one.ends_us is not None]
    for ends_us, charge in sorted(ending, key=lambda end: end[0]):
        missing = _without(missing, charge)
        if not missing:
            return ends_us
    return None


def _missing(draft: TreeOverlay, node: TreeNode, head: WaitingWorkload) -> dict[str, int]:
    """How much of each key is too little for it now."""
    wanted = charged(head.request.demand, head.request.types)
    grant = draft.grant(node.name, head.uid)
    held = grant.charge if grant else {}
    rises = {key: n - held.get(key, 0) for key, n in wanted.items() if n > held.get(key, 0)}
    limits = draft.limits(node, rises)
    missing = {
        key: draft.used(node, key) + rises[key] - limit
        for key, limit in limits.items()
        if limit is not None
    }
    return {key: amount for key, amount in missing.items() if amount > 0}


def decide_returns(
    draft: TreeOverlay,
    waiting: Iterable[WaitingWorkload],
    queue: Queue,
    running: Iterable[Running],
    now_us: int,
) -> list[str]:
    """The uids of workloads that must stop and wait again: the last of those that passed the head, until the head fits.

    ``running`` in the order of release. Workloads with a deadline end in time by themselves. Empty before the head has
    waited ``maxHeadDelay``, and if it would not fit even then.
    """
    delay_us = queue.max_head_delay_seconds * SECOND_US
    if not delay_us:
        return []
    first, reason = _head(draft, waiting, now_us)
    if first is None or reason != "over-quota" or now_us < first.created_us + delay_us:
        return []
    node = draft.node(first.request.quota)
    if node is None:
        return []
    mine = [one for one in running if one.passed == first.uid and one.ends_us is None]
    missing = _missing(draft, node, first)
    for one in mine:
        if one.is_returning:
            missing = _without(missing, one.charge)
    stopped: list[str] = []
    for one in reversed([one for one in mine if not one.is_returning]):
        if not missing:
            break
        if missing.keys() & one.charge.keys():
            stopped.append(one.uid)
            missing = _without(missing, one.charge)
    return stopped if not missing else []


def _head(
    draft: TreeOverlay, waiting: Iterable[WaitingWorkload], now_us: int
) -> tuple[WaitingWorkload | None, str]:
    """The first workload that does not fit for a reason that passes by itself, and the reason.

    None if one before it fits: that one starts first.
    """
    for one in ordered(waiting)[:DEPTH]:
        if not covers(draft, one.request):
            answer = decide(draft, one.request, now_us)
            if answer.verdict == "admitted":
                break
            if answer.reason in PASSING:
                return one, answer.reason
    return None, ""


def _without(missing: dict[str, int], charge: dict[str, int]) -> dict[str, int]:
    """The amounts still missing after ``charge`` is returned."""
    return {key: n - charge.get(key, 0) for key, n in missing.items() if n > charge.get(key, 0)}
