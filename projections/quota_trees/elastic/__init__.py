"""Elastic quotas: a tree of quotas with borrowing of unused shares.

Everything here only calculates, in exact integers, with Koordinator's results: the current share of each quota
(`runtime`, `scaling`, kept up to date by `incremental`; `tree` has its figures), whether a pod fits (`admission`),
which quotas are acceptable (`rules`, `review`, over a `topology`).
"""

from projections.quota_trees.elastic.admission import Level, exceeded, refusal
from projections.quota_trees.elastic.incremental import ElasticTree, PodSums
from projections.quota_trees.elastic.runtime import ChildShare, largest_remainder, runtimes
from projections.quota_trees.elastic.scaling import scaled_mins
from projections.quota_trees.elastic.shape import (
    BUILT_IN,
    DEFAULT,
    ROOT,
    SYSTEM,
    ElasticQuota,
    Refusal,
    Resources,
    shared_weight,
)
from projections.quota_trees.elastic.topology import Topology
from projections.quota_trees.elastic.tree import Figures, Mode

__all__ = [
    "BUILT_IN",
    "DEFAULT",
    "ROOT",
    "SYSTEM",
    "ChildShare",
    "ElasticQuota",
    "ElasticTree",
    "Figures",
    "Level",
    "Mode",
    "PodSums",
    "Refusal",
    "Resources",
    "Topology",
    "exceeded",
    "largest_remainder",
    "refusal",
    "runtimes",
    "scaled_mins",
    "shared_weight",
]
