"""The cluster as last observed, in memory: :class:`ClusterState`."""

from projections.cluster.objects import Change, Gone, covers
from projections.cluster.pod_terms import Service
from projections.cluster.rows import POD, Pod, Workload
from projections.cluster.state import ClusterState

__all__ = ["POD", "Change", "ClusterState", "Gone", "Pod", "Service", "Workload", "covers"]
