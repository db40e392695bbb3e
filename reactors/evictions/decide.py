"""The eviction reactor: on every tick, the pods to evict to enforce their quota.

- *budget-grace-over*: the grace of a spent budget is over (``GraceThenEvict``): all pods that its quota charges with
  the budget's key are evicted, lowest priority first, the later started first.
- *quota-overused*: an elastic quota was over its share for longer than ``delay_evict_seconds``: the least important pods
  until the rest fits (:func:`reactors.reclaim.revoked`). Only with ``monitor_all_quotas``.
- *quota-preempted*: a workload of higher priority does not fit into the pod's quota
  (:mod:`reactors.evictions.preempting`).

One decision for each pod, once; the pod waits for its outcome, and rests after a refusal. A resting pod
is passed over: an elastic quota evicts the next in order instead, and a spent budget first asks for the pods that
never refused. Otherwise pods protected by a disruption budget would use up all limits, for ever. The limits and
interlocks of the engine cut the rest off, and the next tick decides again on the remaining pods.

Source: docs/queues.md; docs/architecture.md; docs/reliability.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from bus.clock import SECOND_US
from bus.events.decisions import Decision, Evict, Target
from projections.cluster import Pod
from projections.quota_trees.shape import BUSINESS, ELASTIC
from reactors import reclaim
from reactors.engine.contract import ProposedDecision, Rest, Trigger
from reactors.evictions import preempting
from reactors.evictions.settings import EvictionPolicy
from reactors.evictions.state import (
    PREEMPTED,
    EvictionState,
    Placed,
    asked,
    elastic,
    elastic_used,
)
from reactors.reclaim import importance, preemption

#: A decision may be done so long after it was made: a disruption budget may hold it up.
EXPIRES_US = 300 * SECOND_US

GRACE, OVERUSED = "budget-grace-over", "quota-overused"
#: The state of a quota's budget that evicts pods.
EVICT = "GraceThenEvict"


def decide(view: EvictionState, trigger: Trigger, policy: EvictionPolicy) -> list[ProposedDecision]:
    """The decisions at one tick: at most one draft for each pod, the least important first."""
    found: dict[str, ProposedDecision] = {}
    drafts: list[ProposedDecision] = []
    # The owners of pods are read only if a quota may have to evict.
    if view.spent or (policy.monitor_all_quotas and view.watches):
        placed = view.placed()
        drafts += [*_spent(view, placed, trigger), *_overused(view, placed, trigger, policy)]
    if policy.preemption != "off":
        is_shadow = policy.preemption == "shadow"
        expires_us = trigger.at_us + EXPIRES_US
        drafts += preempting.preempted(view, trigger, expires_us, is_shadow=is_shadow)
    for draft in drafts:
        found.setdefault(draft.key, draft)
    return list(found.values())


def _spent(
    view: EvictionState, placed: Placed, trigger: Trigger, *, waiting: bool = False
) -> Iterator[ProposedDecision]:
    """The pods to evict now, or those that must go and are ``waiting``."""
    for (quota, key), judged in sorted(view.spent.items()):
        charged = _charged(view, quota, key)
        held = placed.get((BUSINESS, quota), ()) if charged else ()
        pods = [pod for pod in held if view.holder(pod) in charged]
        numbers = {
            "spent": judged.spent, "limit": judged.limit, "exhausted_s": judged.exhausted_s or 0,
            "judged_s": judged.at_s,
        }  # fmt: skip
        willing_first = sorted(_least_first(pods, quota), key=lambda pod: pod.uid in view.refusals)
        for pod in willing_first:
            if _may_go(view, pod, trigger) != waiting:
                yield _draft(pod, quota, GRACE, numbers, trigger)


def _charged(view: EvictionState, quota: str, key: str) -> set[str]:
    """The workloads charged by a quota with a key. Empty without such a budget, or if the budget evicts none."""
    nodes = (tree.nodes[quota] for tree in view.trees.values() if quota in tree.nodes)
    return {
        grant.uid
        for node in nodes
        if node.kind == BUSINESS and key in node.spec.cash and node.spec.exhaustion == EVICT
        for grant in node.grants.values()
        if grant.charge.get(key)
    }


def _overused(
    view: EvictionState, placed: Placed, trigger: Trigger, policy: EvictionPolicy
) -> Iterator[ProposedDecision]:
    if not policy.monitor_all_quotas:
        return
    used = elastic_used(placed)
    for tree in view.trees.values():
        for node in sorted(elastic(tree), key=lambda one: one.name):
            using, runtime = used.get(node.name, {}), tree.elastic.runtime(node.name)
            _, is_due = reclaim.watched(
                view.watches.get(node.name),
                at_us=trigger.at_us,
                is_over=bool(reclaim.over(using, runtime)),
                delay_us=policy.delay_evict_seconds * SECOND_US,
            )
            if is_due:
                pods = placed.get((ELASTIC, node.name), [])
                yield from _revoked(view, pods, trigger, node.name, using, runtime)


def _revoked(
    view: EvictionState, held: list[Pod], trigger: Trigger, quota: str, used: dict[str, int],
    runtime: dict[str, int],
) -> Iterator[ProposedDecision]:  # fmt: skip
    pods = {(pod.namespace, pod.name): pod for pod in held if not _rests(view, pod, trigger)}
    victims = reclaim.revoked(used, runtime, (_pod(one, quota) for one in pods.values()))
    keys = reclaim.over(used, runtime)
    numbers = {f"used_{key}": used.get(key, 0) for key in keys}
    numbers |= {f"runtime_{key}": runtime[key] for key in keys}
    for victim in reversed(victims):
        pod = pods[(victim.namespace, victim.name)]
        if _may_go(view, pod, trigger):
            yield _draft(pod, quota, OVERUSED, numbers, trigger)


def _least_first(pods: Iterable[Pod], quota: str) -> list[Pod]:
    return sorted(pods, key=lambda pod: importance(_pod(pod, quota)), reverse=True)


def _pod(pod: Pod, quota: str) -> reclaim.Pod:
    """A pod as reclaiming takes it."""
    return reclaim.Pod(
        pod.name, pod.namespace, quota, pod.priority, pod.started_us, asked(pod),
        preemptible=preemption.is_preemptible(pod.labels),
    )  # fmt: skip


def rests(view: EvictionState, trigger: Trigger, policy: EvictionPolicy) -> Iterator[Rest]:
    """The pods of a spent budget that rest after a refusal or wait for the outcome of an eviction."""
    placed = view.placed() if view.spent else {}
    for draft in _spent(view, placed, trigger, waiting=True):
        until_us = view.rests_until_us.get(draft.key, 0)
        yield Rest(draft, "outstanding" if draft.key in view.awaited else "refused", until_us)


def _may_go(view: EvictionState, pod: Pod, trigger: Trigger) -> bool:
    return pod.uid not in view.awaited and not _rests(view, pod, trigger)


def _rests(view: EvictionState, pod: Pod, trigger: Trigger) -> bool:
    return view.rests_until_us.get(pod.uid, 0) > trigger.at_us


def _draft(
    pod: Pod, quota: str, reason: str, numbers: dict[str, int], trigger: Trigger
) -> ProposedDecision:
    return ProposedDecision(
        verb=Evict,
        key=pod.uid,
        target=Target("Pod", pod.namespace, pod.name, pod.uid, pod.node),
        quota=quota,
        reason=reason,
        numbers={"priority": pod.priority, **numbers},
        expires_us=trigger.at_us + EXPIRES_US,
    )


def overtaken(view: EvictionState, decision: Decision, policy: EvictionPolicy) -> str:
    """The reason why newer facts make an eviction unnecessary; "" = it is still needed."""
    pod = view.pod(decision.key)
    if pod is None:
        return "gone"
    where = view.place(pod)
    if where is None:
        return "quota_changed"
    if decision.reason == PREEMPTED:
        return preempting.overtaken(view, decision)
    if decision.reason == GRACE:
        holder, kind = view.holder(pod), where.kind
        keys = [key for quota, key in view.spent if kind == BUSINESS and quota == where.quota]
        is_due = any(holder in _charged(view, where.quota, key) for key in keys)
        return "" if is_due else "budget_renewed"
    for tree in view.trees.values():
        node = tree.nodes.get(where.quota)
        if node is not None and node.kind == where.kind == ELASTIC:
            runtime = tree.elastic.runtime(where.quota)
            is_over = reclaim.over(view.used().get(where.quota, {}), runtime)
            return "" if is_over else "within_share"
    return "quota_changed"


def managed(view: EvictionState) -> int:
    """How many pods hold something."""
    return view.bound
