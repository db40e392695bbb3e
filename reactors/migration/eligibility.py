"""Eligibility of pods for migration: whether a pod may move at all, and whether it may start now. Pure.

Pods of Deployments, ReplicaSets and StatefulSets with enough other pods may move. A pod waits while its node, namespace or
workload has as many migrations as allowed, while its workload rolls out or scales, and while other pods of it are unavailable.

Source: koordinator-sh/koordinator, pkg/descheduler/controllers/migration/arbitrator/filter.go; docs/migration.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from bus.kube.watch.labels import DO_NOT_MOVE
from projections.cluster import ClusterState, Pod, Workload
from reactors.migration import limits
from reactors.migration.order import (
    DELETION_COST,
    EVICTION_COST,
    PRIORITY_CLASS,
    QOS_CLASS,
    Evictable,
    cost_of,
    is_evictable,
    is_opted_out,
    kube_qos,
)

if TYPE_CHECKING:
    from reactors.migration.settings import MigrationPolicy

#: Kinds at the end of a chain of controllers. They create a pod again elsewhere without loss to the others.
MOVABLE = frozenset({"Deployment", "ReplicaSet", "StatefulSet"})
#: Priority of system-cluster-critical: system pods have at least this.
CRITICAL = 2_000_000_000


class Migrating:
    """The pods of running migrations, counted by node, namespace and workload."""

    def __init__(self, state: ClusterState, pods: Iterable[Pod]) -> None:
        self._state = state
        self.uids: set[str] = set()
        self.nodes: Counter[str] = Counter()
        self.namespaces: Counter[str] = Counter()
        self.workloads: dict[str, set[str]] = {}
        for pod in pods:
            self.add(pod)

    def add(self, pod: Pod) -> None:
        """Count one more pod; a pod of two jobs counts once."""
        if pod.uid in self.uids:
            return
        self.uids.add(pod.uid)
        self.nodes[pod.node] += 1
        self.namespaces[pod.namespace] += 1
        top = self._state.top(pod.owner)
        if top is not None:
            self.workloads.setdefault(top.uid, set()).add(pod.uid)


def evictable(pod: Pod) -> Evictable:
    """The pod as compared by the order of evictions."""
    return Evictable(
        namespace=pod.namespace, name=pod.name, priority=pod.priority,
        priority_class=pod.labels.get(PRIORITY_CLASS, ""), qos=pod.labels.get(QOS_CLASS, ""),
        kube_qos=kube_qos(pod.demand), deletion_cost=cost_of(pod.annotations, DELETION_COST),
        eviction_cost=cost_of(pod.annotations, EVICTION_COST), created_us=pod.started_us,
    )  # fmt: skip


def forbidden(state: ClusterState, pod: Pod, policy: MigrationPolicy) -> str:
    """The reason why a pod never moves, as a sentence; "" = it may."""
    found = pod.constraints
    if pod.namespace in policy.excluded_namespaces:
        return f"pods of namespace {pod.namespace} never move"
    if is_opted_out(pod.annotations):
        return f"the pod has the annotation {DO_NOT_MOVE}: true"
    if found is not None and found.is_cut:
        return "the pod's scheduling terms are too large to be recorded"
    if pod.owner is None:
        return "the pod has no controller that would make it again"
    if pod.priority >= CRITICAL:
        return "the pod is critical for the system"
    if not is_evictable(cost_of(pod.annotations, EVICTION_COST)):
        return f"the annotation {EVICTION_COST} forbids its eviction"
    if found is not None and found.gang is not None:
        return "the pod belongs to a gang, which moves as a whole or not at all"
    if pod.templates or (found is not None and found.has_resource_claims):
        return "the pod has resource claims, which no reservation holds"
    if policy.ignore_pvc_pods and found is not None and found.claims:
        return "the pod has claims of volumes"
    chain = state.chain(pod.owner)
    kind = pod.owner.kind if chain is None else chain[-1].kind
    if kind not in MOVABLE:
        return f"pods of a {kind} never move"
    replicas = chain[-1].ask.replicas if chain else None
    if replicas is None or policy.rules == "v1.0":
        return ""
    most = policy.most_migrating(replicas), policy.most_unavailable(replicas)
    if not limits.has_enough_replicas(replicas, *most):
        return f"its {kind} has {replicas} replicas, of which all might be away at once"
    return ""


def held(state: ClusterState, pod: Pod, policy: MigrationPolicy, migrating: Migrating) -> str:
    """The reason why a migration may not begin now, as a token; "" = it may."""
    if pod.uid in migrating.uids:
        return "pod_migrating"
    if not limits.is_below(policy.max_migrating_globally, len(migrating.uids)):
        return "max_migrating_globally"
    if pod.node and not limits.is_below(policy.max_migrating_per_node, migrating.nodes[pod.node]):
        return "max_migrating_per_node"
    others = migrating.namespaces[pod.namespace]
    if not limits.is_below(policy.max_migrating_per_namespace, others):
        return "max_migrating_per_namespace"
    return unhealthy(state, pod, policy, migrating)


def unhealthy(state: ClusterState, pod: Pod, policy: MigrationPolicy, migrating: Migrating) -> str:
    """The reason why a pod's workload cannot spare a pod now, as a token; "" = it can."""
    top = state.top(pod.owner)
    if top is None:
        return "controller_unknown"
    replicas = top.ask.replicas
    if replicas is None or top.is_terminating:
        return "workload_unknown"
    pods = pods_of(state, top)
    living = [one for one in pods if not one.is_terminating and not one.is_ended]
    if any(one.owner != pod.owner for one in living):
        return "workload_rolls_out"
    if len(living) != replicas:
        return "workload_scales"
    others = migrating.workloads.get(top.uid, set()) - {pod.uid}
    if not limits.may_join(len(others), policy.most_migrating(replicas)):
        return "max_migrating_per_workload"
    away = others | {one.uid for one in pods if one.uid != pod.uid and not is_available(one)}
    if not limits.is_available_enough(len(away), policy.most_unavailable(replicas)):
        return "max_unavailable_per_workload"
    return ""


def is_available(pod: Pod) -> bool:
    """Whether a pod runs, is ready, and is not about to end."""
    return pod.is_running and not pod.is_unready


def pods_of(state: ClusterState, top: Workload) -> list[Pod]:
    """The pods of a workload, and of its ReplicaSets. A pod of another namespace names its owner in vain."""
    found: list[Pod] = []
    for uid in sorted(state.index.owned[top.uid]):
        of = (uid,) if uid in state.pods else sorted(state.index.owned[uid])
        found += (state.pods[one] for one in of if one in state.pods)
    return [one for one in found if one.namespace == top.namespace]
