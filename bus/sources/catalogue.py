"""The sources that follow a cluster, one line each."""

from __future__ import annotations

from functools import partial

from bus.events.observations import ObjectsListed
from bus.events.pods import PodsListed
from bus.kube.crds.quotas import KIND, PATH, PLURAL
from bus.kube.kinds import Kind, table
from bus.kube.watch.contract import Source
from bus.sources import namespaces, nodes, pods, priorities, quotas, workloads

PODS = Source(
    "pods",
    "/api/v1/pods",
    pods.translate,
    every_version=True,
    list_fact=PodsListed,
    says_every_list=True,
    is_bound=True,
)
NAMESPACES = Source("namespaces", "/api/v1/namespaces", namespaces.translate)
NODES = Source("nodes", "/api/v1/nodes", nodes.translate)
PRIORITIES = Source(
    "priorityclasses", "/apis/scheduling.k8s.io/v1/priorityclasses", priorities.translate
)


def _workloads(kind: Kind, *, is_optional: bool = False) -> Source:
    translate = partial(workloads.translate, kind=kind)
    return Source(
        kind.resource,
        kind.path,
        translate,
        list_fact=partial(ObjectsListed, kind=kind.kind),
        kind=kind.kind,
        is_optional=is_optional,
    )


DEPLOYMENTS = _workloads(table.DEPLOYMENT)
REPLICASETS = _workloads(table.REPLICASET)
STATEFULSETS = _workloads(table.STATEFULSET)
DAEMONSETS = _workloads(table.DAEMONSET)
JOBS = _workloads(table.JOB)
CRONJOBS = _workloads(table.CRONJOB)
ROLLOUTS = _workloads(table.ROLLOUT, is_optional=True)
TFJOBS = _workloads(table.TFJOB, is_optional=True)
PYTORCHJOBS = _workloads(table.PYTORCHJOB, is_optional=True)
MPIJOBS = _workloads(table.MPIJOB, is_optional=True)
NOTEBOOKS = _workloads(table.NOTEBOOK, is_optional=True)
RAYCLUSTERS = _workloads(table.RAYCLUSTER, is_optional=True)
RAYJOBS = _workloads(table.RAYJOB, is_optional=True)
JOBSETS = _workloads(table.JOBSET, is_optional=True)


def _quotas(name: str, path: str, kind: str) -> Source:
    translate, lists = partial(quotas.translate, kind=kind), partial(ObjectsListed, kind=kind)
    return Source(name, path, translate, list_fact=lists, kind=kind, is_optional=True)


BUSINESS_QUOTAS = _quotas(PLURAL, PATH, KIND)
ELASTIC_QUOTAS = _quotas(
    "elasticquotas", "/apis/scheduling.sigs.k8s.io/v1alpha1/elasticquotas", "ElasticQuota"
)

SOURCES = (
    PODS,
    NAMESPACES,
    NODES,
    PRIORITIES,
    DEPLOYMENTS,
    REPLICASETS,
    STATEFULSETS,
    DAEMONSETS,
    JOBS,
    CRONJOBS,
    ROLLOUTS,
    TFJOBS,
    PYTORCHJOBS,
    MPIJOBS,
    NOTEBOOKS,
    RAYCLUSTERS,
    RAYJOBS,
    JOBSETS,
    BUSINESS_QUOTAS,
    ELASTIC_QUOTAS,
)
