"""The sources that follow a cluster, one line each."""

from __future__ import annotations

from functools import partial

from bus.kinds import Kind, table
from bus.sources import namespaces, nodes, pods, workloads
from bus.sources.contract import Source

PODS = Source(
    "pods", "/api/v1/pods", pods.translate, every_version=True, says_lists=True, is_bound=True
)
NAMESPACES = Source("namespaces", "/api/v1/namespaces", namespaces.translate)
NODES = Source("nodes", "/api/v1/nodes", nodes.translate)


def _workloads(kind: Kind, *, is_optional: bool = False) -> Source:
    translate = partial(workloads.translate, kind=kind)
    return Source(kind.resource, kind.path, translate, kind=kind.kind, is_optional=is_optional)


DEPLOYMENTS = _workloads(table.DEPLOYMENT)
REPLICASETS = _workloads(table.REPLICASET)
STATEFULSETS = _workloads(table.STATEFULSET)
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

SOURCES = (
    PODS,
    NAMESPACES,
    NODES,
    DEPLOYMENTS,
    REPLICASETS,
    STATEFULSETS,
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
)
