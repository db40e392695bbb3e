"""The evictor check: movable pods, and the limits of one round. Pure.

Pods of Deployments, ReplicaSets and StatefulSets move. Members of gangs stay: the whole gang moves, or nothing does. A workload
loses no pod while it rolls out, scales, or has pods not running.

Source: kubernetes-sigs/descheduler, DefaultEvictor; docs/rebalancing.md.
"""

from __future__ import annotations

from collections import Counter

import msgspec

from bus.kube.watch.labels import DO_NOT_MOVE
from projections.cluster import ClusterState, Pod
from reactors.migration.order import (
    EVICTION_COST,
    cost_of,
    is_evictable,
    is_opted_out,
)
from reactors.rebalancing.settings import RebalancingPolicy
from reactors.rebalancing.shape import Refusal, RefusalCode
from reactors.reclaim.disruption import known, split_by_budget
from reactors.scheduling.queueing.messages import SYSTEM_NAMESPACES

#: From this priority on pods are critical for the system.
CRITICAL = 2 * 10**9
#: Kinds of workloads whose controllers create an evicted pod again without loss to its other pods.
MOVABLE = frozenset({"Deployment", "ReplicaSet", "StatefulSet"})


class WorkloadPods(msgspec.Struct):
    """The living pods of a workload. ``wanted``: its desired replicas; None = unknown."""

    kind: str
    name: str
    wanted: int | None
    pods: int = 0
    running: int = 0
    #: Uids of the pods' controllers: two while a Deployment rolls out.
    owners: set[str] = msgspec.field(default_factory=set)


class Evictor:
    """Refuses pods by themselves, their workload, and the moves planned already."""

    def __init__(self, state: ClusterState, policy: RebalancingPolicy) -> None:
        self._state, self._policy = state, policy
        self._excluded = SYSTEM_NAMESPACES | policy.excluded_namespaces
        self._budgets = known(state.disruption_budgets.values())
        self._planned: list[Pod] = []
        self._of_node: Counter[str] = Counter()
        self._of_namespace: Counter[str] = Counter()
        self._of_workload: Counter[str] = Counter()
        self._workloads: dict[str, WorkloadPods] = {}
        for pod in state.pods.values():
            if pod.owner is not None and not pod.is_ended:
                self._count(pod)

    def _count(self, pod: Pod) -> None:
        key = self._key(pod)
        owner = pod.owner
        assert owner is not None
        if key not in self._workloads:
            top = self._state.top(owner)
            kind, name = (top.kind, top.name) if top else (owner.kind, owner.name)
            self._workloads[key] = WorkloadPods(kind, name, top.ask.replicas if top else None)
        self._workloads[key].owners.add(owner.uid)
        self._workloads[key].pods += 1
        self._workloads[key].running += pod.is_running and not pod.is_unready

    def _key(self, pod: Pod) -> str:
        """The uid of the workload at the end of a pod's chain of controllers, else of its controller."""
        assert pod.owner is not None
        top = self._state.top(pod.owner)
        return top.uid if top is not None else pod.owner.uid

    def workload(self, pod: Pod) -> str:
        """Kind and name of the workload of a pod; "" for a bare pod."""
        if pod.owner is None or pod.is_ended:
            return ""
        found = self._workloads[self._key(pod)]
        return f"{found.kind}/{found.name}"

    def refuses(self, pod: Pod) -> Refusal | None:
        """The first reason against a move of a pod; None = it may move."""
        return self._by_itself(pod) or self._by_workload(pod) or self._by_limits(pod)

    def plan(self, pod: Pod) -> None:
        """Count a planned move against every limit."""
        self._planned.append(pod)
        self._of_node[pod.node] += 1
        self._of_namespace[pod.namespace] += 1
        self._of_workload[self._key(pod)] += 1

    def _by_itself(self, pod: Pod) -> Refusal | None:
        if not pod.is_bound:
            return Refusal("ending", "the pod ends, or has no node")
        if pod.owner is None:
            return Refusal("bare-pod", "no controller would create the pod again")
        if pod.owner.kind == "DaemonSet":
            return Refusal("daemonset", "a DaemonSet binds the pod to its node")
        if pod.owner.kind == "Node":
            return Refusal("mirror-pod", "the kubelet runs the pod from a file of its node")
        if pod.namespace in self._excluded:
            return Refusal("excluded-namespace", f"pods of namespace {pod.namespace} stay")
        if pod.priority >= CRITICAL:
            return Refusal("critical-priority", f"priority {pod.priority} is critical")
        if is_opted_out(pod.annotations):
            return Refusal("opted-out", f"the pod has the annotation {DO_NOT_MOVE}: true")
        if not is_evictable(cost_of(pod.annotations, EVICTION_COST)):
            return Refusal("opted-out", f"the pod's annotation {EVICTION_COST} forbids it")
        if pod.constraints is not None and pod.constraints.gang is not None:
            return Refusal("gang", f"the pod belongs to gang {pod.constraints.gang.name}")
        return None

    def _by_workload(self, pod: Pod) -> Refusal | None:
        found = self._workloads[self._key(pod)]
        name = f"{found.kind}/{found.name}"
        if found.kind not in MOVABLE:
            return Refusal("workload-kind", f"pods of a {found.kind} stay")
        if found.wanted is None:
            return Refusal("unsettled-workload", f"the replicas of {name} are unknown")
        if not found.running == found.pods == found.wanted:
            return Refusal(
                "unsettled-workload", f"{found.running} of {found.wanted} pods of {name} run"
            )
        if len(found.owners) > 1:
            return Refusal("unsettled-workload", f"{name} rolls out")
        if found.pods < 2:
            return Refusal("single-replica", f"the pod is the only one of {name}")
        return None

    def _by_limits(self, pod: Pod) -> Refusal | None:
        policy, key = self._policy, self._key(pod)
        workload = self._workloads[key]
        share = max(1, int(workload.pods * policy.most_percent_of_workload / 100))
        of_workload = f"of {workload.pods} pods of {workload.kind}/{workload.name}"
        limits: tuple[tuple[RefusalCode, int, int, str], ...] = (
            ("most-moves", len(self._planned), policy.most_moves, "pods"),
            ("most-per-node", self._of_node[pod.node], policy.most_per_node, "pods of one node"),
            ("most-per-namespace", self._of_namespace[pod.namespace], policy.most_per_namespace, "pods of one namespace"),
            ("most-of-workload", self._of_workload[key], share, of_workload),
        )  # fmt: skip
        for code, planned, most, pods in limits:
            if planned >= most:
                return Refusal(code, f"a round moves at most {most} {pods}")
        violating = split_by_budget([*self._planned, pod], self._budgets)[0]
        if any(one.uid == pod.uid for one in violating):
            return Refusal("disruption-budget", "a disruption budget allows no further eviction")
        return None
