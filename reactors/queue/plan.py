"""The plan of a cluster's queues at one point of its history: waiting workloads, ready workloads, decisions. Pure.

The queue's process and the check of its releases call the same functions.

Source: docs/architecture.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from bus.events.admissions import MAX_BATCH, AdmissionReleased, Release
from projections.quota_trees import Tree, TreeOverlay
from reactors.admission.coverage.objects import Object
from reactors.admission.deciding.decide import covers
from reactors.admission.deciding.mapping import QuotaRef
from reactors.queue.decide import decide_releases, decide_returns
from reactors.queue.demand import counted
from reactors.queue.shape import QueueLine
from reactors.queue.state import QueueState, request_of

#: The least window: the number of releases that may lack a pod at a time. A workload released before it can start
#: wastes its quota, and a later workload of higher priority cannot overtake it any more. A measured Job controller takes
#: 20 Jobs a second through their lives. Behind it, a backlog of 600 held the quota for twice its running time. The window is
#: larger if more workloads began to run within the last second: a release waits about a second for its controller. A late
#: release counts for its own quota alone.
WINDOW = 32


class Plan(msgspec.Struct):
    """``queues``: by tree and quota. ``ready``: held workloads whose whole request is charged."""

    queues: dict[str, dict[str, QueueLine]] = msgspec.field(default_factory=dict)
    ready: list[Object] = msgspec.field(default_factory=list)


def planned(lines: QueueState, tree_of: Callable[[QuotaRef], Tree | None]) -> Plan:
    """All held workloads in their queues. Workloads without a quota in a tree are left out."""
    plan = Plan()
    for found, where in lines.held():
        tree = tree_of(where) if where is not None else None
        if where is None or tree is None:
            continue
        is_granted = covers(TreeOverlay(tree), request_of(found, where))
        if is_granted and not lines.is_returning(found.uid):
            plan.ready.append(found)
            continue
        line = plan.queues.setdefault(tree.name, {}).setdefault(where.quota, QueueLine())
        if is_granted:
            if not lines.is_ending(found.uid):
                line.stopped.append(found.uid)
        else:
            line.waiting.append(lines.waiting(found, where))
    return plan


def count_all(trees: Mapping[str, Tree], lines: QueueState, at_us: int) -> None:
    """Count the unmet demand of the elastic ``trees`` at a moment."""
    if not any(tree.elastic.is_used for tree in trees.values()):
        return
    queues = planned_in(trees, lines).queues
    for tree in trees.values():
        counted(tree, queues.get(tree.name, {}), at_us)


def planned_in(trees: Mapping[str, Tree], lines: QueueState) -> Plan:
    """All held workloads in their queues in ``trees``."""

    def tree_of(where: QuotaRef) -> Tree | None:
        nodes = ((tree, tree.nodes.get(where.quota)) for tree in trees.values())
        return next((t for t, node in nodes if node is not None and node.kind == where.kind), None)

    return planned(lines, tree_of)


def decided(
    draft: TreeOverlay,
    lines: QueueState,
    queues: dict[str, QueueLine],
    now_us: int,
    based_on: int,
    *,
    elsewhere: int = 0,
    is_paced: bool = True,
) -> int:
    """Add starts and stops of the tree's ``queues`` to ``draft``, quota by quota, in one batch. Returns the number of starts.

    Starts at most as many as controllers can start (:data:`WINDOW`), including ``elsewhere`` in other trees at this look.
    ``is_paced`` off: the window is fixed, as it was in older histories.
    """
    counted(draft.tree, queues, now_us)
    window = max(WINDOW, lines.starts.pace(now_us)) if is_paced else WINDOW
    unmade = lines.starts.unmade(now_us) if is_paced else {}
    most, begun = window - lines.starts.count(now_us) - elsewhere, 0
    for quota in sorted(queues):
        node, line = draft.node(quota), queues[quota]
        if node is None or len(draft.facts) >= MAX_BATCH:
            continue
        rules, running = node.spec.queue, list(lines.running(node))
        ended = [Release(quota, uid, "returned") for uid in line.stopped]
        _release(draft, ended, now_us, based_on)
        room = min(most - begun, window - unmade.get(quota, 0))
        started = decide_releases(
            draft, line.waiting, rules, running, now_us, based_on=based_on, most=max(room, 0),
            window=window if is_paced else 0,
        )  # fmt: skip
        begun += len(started)
        back = decide_returns(draft, line.waiting, rules, running, now_us)
        releases = [Release(quota, uid, "returning", node.grants[uid].charge) for uid in back]
        _release(draft, releases, now_us, based_on)
    return begun


def _release(draft: TreeOverlay, releases: list[Release], now_us: int, based_on: int) -> None:
    """A release counts once it is stored; the next pass gives the room to waiting workloads."""
    if releases:
        fact = AdmissionReleased(number=draft.number, releases=tuple(releases), based_on=based_on)
        draft.add(fact, now_us)
