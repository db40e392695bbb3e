"""Preemption inside a quota: pods to evict for a workload of higher priority in the same quota; pure.

Workloads refused for lack of room, and queued ones, ask for amounts of a quota. If the most important of them does not
fit, it takes the room of less important pods of the same quota: as few as are enough, and none if all of
them would not be enough. Only pods with a charge of their own are evicted. A controller's pods come back and
the controller keeps its charge, so their eviction would make no room.

While an evicted pod still exists, its quota evicts no others: room is being made already. In shadow such a
pod's room counts as made, as long as its workload asks for it.

Source: Koordinator, ``preempt.go``; :mod:`reactors.reclaim.preemption` has the choice; ``docs/queues.md``.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from bus.events.decisions import Decision, Evict, Target
from projections.cluster import Pod
from projections.quota_trees import Tree, TreeNode
from projections.quota_trees import TreeOverlay as Overlay
from projections.quota_trees.unmet import OVER_QUOTA, Unmet
from reactors import reclaim
from reactors.admission.deciding.decide import Request, decide
from reactors.engine.contract import ProposedDecision, Trigger
from reactors.evictions.state import LONGEST_REST_US, PREEMPTED, EvictionState
from reactors.queue.demand import unmet
from reactors.queue.plan import planned_in
from reactors.queue.shape import ordered
from reactors.reclaim import preemption


class Asker(msgspec.Struct, frozen=True):
    """A workload with a request to a quota and without a charge for it."""

    unmet: Unmet
    priority: int
    #: Its priority class lets it take the room of others.
    preempts: bool

    @property
    def place(self) -> tuple[int, tuple[int, str, str, str, str]]:
        """The sort key: the highest priority first, then the earliest request."""
        return -self.priority, self.unmet.place


_Pods = dict[tuple[str, str], Pod]


def preempted(
    view: EvictionState, trigger: Trigger, expires_us: int, *, is_shadow: bool
) -> Iterator[ProposedDecision]:
    """The decisions at one tick, quota by quota, the least important pod first."""
    for (name, quota), asker in sorted(heads(view).items()):
        tree = view.trees[name]
        node = tree.nodes[quota]
        if not _is_eligible(view, node, asker, trigger.at_us):
            continue
        answer = decide(Overlay(tree), _request(asker), trigger.at_us)
        if answer.reason != OVER_QUOTA:
            continue
        pods = _candidates(view, node, trigger.at_us)
        found = _selected(view, tree, node, asker, pods)
        numbers = {"for_priority": asker.priority}
        for one in answer.deficits:
            numbers |= {f"asked_{one.key}": one.asked, f"used_{one.key}": one.used}
            numbers[f"limit_{one.key}"] = one.limit
        for victim in reversed(found.victims):
            pod = pods[(victim.namespace, victim.name)]
            yield ProposedDecision(
                verb=Evict,
                key=pod.uid,
                target=Target("Pod", pod.namespace, pod.name, pod.uid, pod.node),
                quota=quota,
                reason=PREEMPTED,
                numbers={"priority": pod.priority, **numbers},
                expires_us=expires_us,
                fields={"beneficiary": asker.unmet.title},
                is_shadow=is_shadow,
            )


def heads(view: EvictionState) -> dict[tuple[str, str], Asker]:
    """The first asking workload of each quota, by tree and quota."""
    found: dict[tuple[str, str], Asker] = {}
    for place, asker in wanted(view):
        if place not in found or asker.place < found[place].place:
            found[place] = asker
    return found


def wanted(view: EvictionState) -> Iterator[tuple[tuple[str, str], Asker]]:
    """All refused and waiting workloads, with tree and quota."""
    lines = view.lines
    for tree in view.trees.values():
        for one in tree.refused:
            if one.quota in tree.nodes:
                named = one.priority_class
                asker = Asker(one, lines.value(named), lines.may_preempt(named))
                yield (tree.name, one.quota), asker
    for name, queues in planned_in(view.trees, lines).queues.items():
        for quota, line in queues.items():
            for waiting in ordered(line.waiting):
                named = view.seen.objects[waiting.uid].ask.priority_class
                wants = unmet(view.trees[name], waiting)
                yield (name, quota), Asker(wants, waiting.priority, lines.may_preempt(named))


def overtaken(view: EvictionState, decision: Decision) -> str:
    """The reason why newer facts make an eviction unnecessary; "" = it is still needed."""
    for (name, _), asker in wanted(view):
        if isinstance(decision, Evict) and asker.unmet.title == decision.beneficiary:
            answer = decide(Overlay(view.trees[name]), _request(asker), decision.at_us)
            return "" if answer.reason == OVER_QUOTA else "room_made"
    return "not_wanted"


def _request(asker: Asker) -> Request:
    """Its request beyond its charge, in the name of a workload without any charge."""
    one = asker.unmet
    return Request(one.quota, "", one.kind, one.namespace, one.name, one.wants)


def _is_eligible(view: EvictionState, node: TreeNode, asker: Asker, at_us: int) -> bool:
    """Whether room may be made for it: not while a less important pod is going."""
    going = [
        reclaim.Pod(one.target.name, quota=node.name, priority=one.numbers["priority"])
        for uid, one in view.yielding.items()
        if uid in node.grants and not one.is_shadow and at_us - one.at_us < LONGEST_REST_US
    ]
    return preemption.is_eligible(
        _asker(asker, node),
        policy_never=not asker.preempts,
        nominated=True,
        unresolvable=False,
        terminating=going,
    )


def _candidates(view: EvictionState, node: TreeNode, at_us: int) -> _Pods:
    """The bound pods with a charge of their own in the quota, evictable now."""
    found = (view.pod(uid) for uid in node.grants)
    return {
        (held.namespace, held.name): held
        for held in found
        if held is not None
        and held.uid not in view.yielding
        and held.uid not in view.awaited
        and view.holder(held) == held.uid
        and view.rests_until_us.get(held.uid, 0) <= at_us
    }


def _selected(
    view: EvictionState, tree: Tree, node: TreeNode, asker: Asker, pods: _Pods
) -> preemption.Selection:
    overlay, wants = Overlay(tree), asker.unmet.wants
    used = {key: overlay.used(node, key) for key in wants}
    for uid, decision in view.yielding.items():
        grant = node.grants.get(uid)
        if decision.is_shadow and grant is not None:
            used = {key: amount - grant.charge.get(key, 0) for key, amount in used.items()}
    limits = overlay.limits(node, wants)
    candidates = [
        reclaim.Pod(
            held.name, held.namespace, node.name, held.priority, held.started_us,
            node.grants[held.uid].charge,
            preemptible=preemption.is_preemptible(held.labels),
        )
        for held in pods.values()
    ]  # fmt: skip
    return preemption.select_victims(
        _asker(asker, node),
        candidates,
        # The Eviction subresource checks the disruption budgets; a refusing pod rests.
        (),
        used=used,
        limit={key: limit for key, limit in limits.items() if limit is not None},
        fits=lambda kept: True,
    )


def _asker(asker: Asker, node: TreeNode) -> reclaim.Pod:
    one = asker.unmet
    return reclaim.Pod(one.name, one.namespace, node.name, asker.priority, request=one.wants)
