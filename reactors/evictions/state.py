"""The state of evictions of a cluster: quotas of pods, quota trees, and budgets past their grace period.

Pods and workloads are those of the state of the cluster, namespaces and quotas those of admission's view. A pod belongs to
the quota of the top of its chain of controllers. A quota's use is the sum of its bound pods that are not about to
end, not the charge of its workloads: a workload keeps its charge after evictions, and would be evicted from for ever.

In shadow an evicted pod counts as gone, until its quota is within its limit or the policy changes. So
each pod is decided once, and all of them are: new decisions on the running pods would repeat the first few for ever.

Source: docs/queues.md; docs/architecture.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import ClassVar

import msgspec

from bus.clock import SECOND_US
from bus.envelope import Event
from bus.events.admissions import JOURNAL, AdmissionsGrouped, entries
from bus.events.budgets import BudgetJudged
from bus.events.clock import ClockTicked
from bus.events.decisions import Decision, EffectSettled, Evict
from bus.events.pods import PodsListed, PodState
from bus.events.policies import PolicyChanged
from bus.events.vocabulary import Fact
from projections.cluster import POD, Change, ClusterState, Pod
from projections.engine.parts import Part, SavedDecision
from projections.quota_trees import Tree, TreeNode
from projections.quota_trees.forest import QuotaTrees
from projections.quota_trees.shape import BUSINESS, ELASTIC
from reactors import reclaim
from reactors.admission.coverage.owners import COVERING
from reactors.admission.deciding.mapping import QuotaRef
from reactors.admission.state.state import AdmissionState, SavedAdmission
from reactors.evictions import NAME
from reactors.queue.plan import count_all
from reactors.queue.state import QueueState, SavedQueues
from reactors.reclaim import Watch

#: The pause of a pod after a refusal, for example by a disruption budget; each further refusal doubles it up
#: to an hour. A shorter first pause would be useless with the default pace: it tries a workload once in five minutes.
REST_US = 300 * SECOND_US
LONGEST_REST_US = 3_600 * SECOND_US

#: The reason of an eviction for a more important workload in the same quota.
PREEMPTED = "quota-preempted"
ASKED = "requests."
GRACE_OVER = "GraceOver"


#: Pods by the kind and the name of their quota.
Placed = dict[tuple[str, str], list[Pod]]


class SavedEvictions(msgspec.Struct):
    """The part of a snapshot for evictions."""

    bound: int
    seen: SavedAdmission
    lines: SavedQueues
    spent: dict[tuple[str, str], BudgetJudged]
    watches: dict[str, Watch]
    is_watching: bool
    awaited: dict[str, SavedDecision]
    rests_until_us: dict[str, int]
    refusals: dict[str, int]
    shadowed: set[str]
    yielding: dict[str, SavedDecision]
    counts: dict[tuple[str, str], int]


class EvictionState(Part):
    """Kept by :class:`reactors.engine.contract.State`."""

    Saved = SavedEvictions
    derived = frozenset({"_state", "trees", "_places"})

    reads: ClassVar[tuple[type[Fact], ...]] = (
        *AdmissionState.reads, *QueueState.reads, AdmissionsGrouped, *JOURNAL, PodState, PodsListed, BudgetJudged,
        ClockTicked, PolicyChanged, Evict, EffectSettled,
    )  # fmt: skip

    def __init__(self, state: ClusterState, quotas: QuotaTrees) -> None:
        self._state = state
        self.trees = quotas.trees
        #: By uid, the quota of each looked-up pod, until anything but pods changes.
        self._places: dict[str, QuotaRef | None] = {}
        #: How many pods are bound and not about to end.
        self.bound = 0
        # It folds the events of the replica's one cluster.
        self.seen = AdmissionState("", state=state)
        #: Waiting workloads, and the values of priority classes.
        self.lines = QueueState(self.seen)
        #: (quota, key) to the judgement at the end of its grace.
        self.spent: dict[tuple[str, str], BudgetJudged] = {}
        #: Elastic quotas by name: since when each may be over its share. Empty while the policy does not ask for it: placing every
        #: pod at each tick is not free.
        self.watches: dict[str, Watch] = {}
        self.is_watching = False
        #: By uid, decisions about a pod without an outcome yet, and the end of its pause.
        self.awaited: dict[str, Decision] = {}
        self.rests_until_us: dict[str, int] = {}
        #: How often an eviction of a pod was refused, by uid.
        self.refusals: Counter[str] = Counter()
        #: Pods evicted in shadow, by uid.
        self.shadowed: set[str] = set()
        #: Pods evicted for a more important workload and still holding something, or so in shadow; by uid.
        self.yielding: dict[str, Decision] = {}
        #: (reason, result): how many.
        self.counts: Counter[tuple[str, str]] = Counter()

    def apply(self, fact: Fact, event: Event) -> None:
        """Fold one event."""
        self.seen.cluster = event.cluster
        self.seen.apply(event)
        # Queues are not worked off here.
        self.seen.unmark()
        for one in entries(event):
            self.lines.apply(one)
        for change in self._state.changes(event):
            if change.kind == POD:
                self._places.pop(change.uid, None)
                self._pod(change)
            else:
                # Owners, namespaces and quotas decide about the owner of a pod.
                self._places.clear()
        if isinstance(fact, BudgetJudged):
            place = (fact.quota, fact.key)
            self.spent.pop(place, None)
            if fact.phase == GRACE_OVER:
                self.spent[place] = fact
            self._unshadow(BUSINESS, fact.quota)
        elif isinstance(fact, ClockTicked):
            self._renew(event.time_us)
            self._yielded()
            if self.is_watching:
                count_all(self.trees, self.lines, event.time_us)
                self._watch(event.time_us)
        elif isinstance(fact, PolicyChanged) and fact.reactor == NAME:
            self.shadowed.clear()
            self._forget_shadows()
            self.is_watching = fact.policy.get("monitor_all_quotas") is True
            if not self.is_watching:
                self.watches.clear()
                for tree in self.trees.values():
                    # Other readers use the trees, and the unmet demand is not counted from now on.
                    tree.count(())
        elif isinstance(fact, Decision) and fact.reactor == NAME:
            self._decided(fact)
        elif isinstance(fact, EffectSettled) and fact.reactor == NAME:
            self._settled(fact, event.time_us)

    def _pod(self, change: Change) -> None:
        was, is_bound = _bound(change.before), _bound(change.after)
        self.bound += is_bound - was
        if was and not is_bound:
            self._forget(change.uid)

    def _forget(self, uid: str) -> None:
        self.rests_until_us.pop(uid, None)
        self.refusals.pop(uid, None)
        self.shadowed.discard(uid)

    def _renew(self, at_us: int) -> None:
        """A new period begins as Ok, without an event of its own."""
        for place, judged in list(self.spent.items()):
            if judged.period_end_s is not None and at_us >= judged.period_end_s * SECOND_US:
                del self.spent[place]
                self._unshadow(BUSINESS, place[0])

    def _unshadow(self, kind: str, quota: str) -> None:
        """Clear a quota's shadow evictions, unless another key of its budget is spent."""
        if kind == BUSINESS and any(name == quota for name, _ in self.spent):
            return
        for uid in list(self.shadowed):
            where = self.place(self._state.pods[uid])
            if where is None or (where.kind, where.quota) == (kind, quota):
                self.shadowed.discard(uid)

    def _watch(self, at_us: int) -> None:
        """Check which elastic quotas are within their share now."""
        nodes = {node.name: (tree, node) for tree in self.trees.values() for node in elastic(tree)}
        for name in self.watches.keys() - nodes.keys():
            del self.watches[name]
        used = self.used() if nodes else {}
        truly = self.used(with_shadowed=True) if nodes and self.shadowed else used
        for name, (tree, node) in nodes.items():
            runtime = tree.elastic.runtime(node.name)
            if self.shadowed and not reclaim.over(truly.get(name, {}), runtime):
                self._unshadow(ELASTIC, name)
            if name not in self.watches or not reclaim.over(used.get(name, {}), runtime):
                self.watches[name] = Watch(at_us)

    def _yielded(self) -> None:
        """Forget pods without holdings; and in shadow, evicted pods without a further request for their room."""
        if not self.yielding:
            return
        wanted = {one.title for tree in self.trees.values() for one in tree.refused}
        wanted |= {f"{one.kind} {one.namespace}/{one.name}" for one, _ in self.lines.held()}
        for uid, decision in list(self.yielding.items()):
            is_held = any(uid in tree.holders for tree in self.trees.values())
            assert isinstance(decision, Evict)
            if not is_held or (decision.is_shadow and decision.beneficiary not in wanted):
                del self.yielding[uid]

    def _forget_shadows(self) -> None:
        for uid, decision in list(self.yielding.items()):
            if decision.is_shadow:
                del self.yielding[uid]

    def _decided(self, decision: Decision) -> None:
        if decision.reason == PREEMPTED:
            self.yielding[decision.key] = decision
            if decision.is_shadow:
                self.counts[(decision.reason, "shadow")] += 1
                return
        if decision.is_shadow:
            self.counts[(decision.reason, "shadow")] += 1
            if self.pod(decision.key) is not None:
                self.shadowed.add(decision.key)
        else:
            self.awaited[decision.key] = decision
        pod = self.pod(decision.key)
        where = self.place(pod) if pod is not None else None
        if where is not None and where.quota in self.watches:
            # A decision gets time to take effect.
            self.watches[where.quota] = Watch(decision.at_us)

    def _settled(self, fact: EffectSettled, time_us: int) -> None:
        for uid, decision in list(self.awaited.items()):
            if decision.id == fact.decision:
                del self.awaited[uid]
                self.counts[(decision.reason, fact.result)] += 1
                if fact.result != "done":
                    self.yielding.pop(uid, None)
                if fact.result == "refused" and self.pod(uid) is not None:
                    self.refusals[uid] += 1
                    rest_us = min(REST_US << (self.refusals[uid] - 1), LONGEST_REST_US)
                    self.rests_until_us[uid] = time_us + rest_us

    # questions

    def pod(self, uid: str) -> Pod | None:
        """A pod that is bound and not about to end; None for any other."""
        found = self._state.pods.get(uid)
        return found if found is not None and found.is_bound else None

    def place(self, pod: Pod) -> QuotaRef | None:
        """The quota of a pod."""
        if pod.owner is not None and pod.owner.kind in COVERING:
            top = self._state.top(pod.owner)
            return self.seen.counted(top.labels, top.namespace) if top is not None else None
        return self.seen.counted(pod.labels, pod.namespace)

    def holder(self, pod: Pod) -> str:
        """The uid of the workload charged for a pod: the top of its chain, or itself."""
        if pod.owner is not None and pod.owner.kind in COVERING:
            top = self._state.top(pod.owner)
            return top.uid if top is not None else ""
        return pod.uid

    def placed(self, *, with_shadowed: bool = False) -> Placed:
        """The pods of each quota, by its kind and name; without those evicted in shadow, or with them."""
        found: Placed = {}
        for pod in self._state.pods.values():
            if not pod.is_bound or (pod.uid in self.shadowed and not with_shadowed):
                continue
            if pod.uid not in self._places:
                self._places[pod.uid] = self.place(pod)
            where = self._places[pod.uid]
            if where is not None:
                found.setdefault((where.kind, where.quota), []).append(pod)
        return found

    def used(self, *, with_shadowed: bool = False) -> dict[str, dict[str, int]]:
        """The requests of the pods of each elastic quota, by resource; without those evicted in shadow, or with them."""
        return elastic_used(self.placed(with_shadowed=with_shadowed))


def elastic_used(placed: Placed) -> dict[str, dict[str, int]]:
    """The requests of the pods of each elastic quota, by resource."""
    found: dict[str, dict[str, int]] = {}
    for (kind, quota), pods in placed.items():
        if kind == ELASTIC:
            sums = Counter[str]()
            for pod in pods:
                sums.update(asked(pod))
            found[quota] = dict(sums)
    return found


def elastic(tree: Tree) -> Iterator[TreeNode]:
    """The quotas of a tree with pods and with a share changed by others' requests."""
    for node in tree.nodes.values():
        if node.observed is not None and node.kind == ELASTIC and not node.observed.is_parent:
            yield node


def asked(pod: Pod) -> dict[str, int]:
    """The requests of a pod, by resource."""
    return {key.removeprefix(ASKED): n for key, n in pod.demand.items() if key.startswith(ASKED)}


def _bound(row: object) -> bool:
    return isinstance(row, Pod) and row.is_bound
