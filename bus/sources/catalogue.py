"""The sources that follow a cluster, one line each."""

from __future__ import annotations

from functools import partial

from bus.sources import namespaces, nodes, pods, workloads
from bus.sources.contract import Source

PODS = Source(
    "pods", "/api/v1/pods", pods.translate, every_version=True, says_lists=True, is_bound=True
)
NAMESPACES = Source("namespaces", "/api/v1/namespaces", namespaces.translate)
NODES = Source("nodes", "/api/v1/nodes", nodes.translate)


def _workloads(name: str, group: str, kind: str) -> Source:
    return Source(name, f"/apis/{group}/v1/{name}", partial(workloads.translate, kind=kind))


DEPLOYMENTS = _workloads("deployments", "apps", "Deployment")
REPLICASETS = _workloads("replicasets", "apps", "ReplicaSet")
STATEFULSETS = _workloads("statefulsets", "apps", "StatefulSet")
JOBS = _workloads("jobs", "batch", "Job")
CRONJOBS = _workloads("cronjobs", "batch", "CronJob")

SOURCES = (PODS, NAMESPACES, NODES, DEPLOYMENTS, REPLICASETS, STATEFULSETS, JOBS, CRONJOBS)
