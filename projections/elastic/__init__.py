"""Elastic quotas: a tree in which what one does not use others may borrow.

Everything here only calculates, in exact integers, with Koordinator's results: what each quota may
use now (`runtime`, `scaling`, `tree`, kept up to date by `incremental`), whether a pod fits
(`admission`), which quotas are acceptable (`rules`, `review`, over a `topology`), and the tops of
further trees (`profile`).
"""

from projections.elastic.admission import Level, exceeded, refusal
from projections.elastic.incremental import ElasticTree, PodSums
from projections.elastic.review import Gates
from projections.elastic.runtime import Claim, half_up, largest_remainder, runtimes
from projections.elastic.scaling import scaled_mins
from projections.elastic.shape import (
    BUILT_IN,
    DEFAULT,
    ROOT,
    SYSTEM,
    Quota,
    Refusal,
    Resources,
    distributable,
    shared_weight,
)
from projections.elastic.topology import Topology
from projections.elastic.tree import Figures, Mode, refreshed

__all__ = [
    "BUILT_IN",
    "DEFAULT",
    "ROOT",
    "SYSTEM",
    "Claim",
    "ElasticTree",
    "Figures",
    "Gates",
    "Level",
    "Mode",
    "PodSums",
    "Quota",
    "Refusal",
    "Resources",
    "Topology",
    "distributable",
    "exceeded",
    "half_up",
    "largest_remainder",
    "refreshed",
    "refusal",
    "runtimes",
    "scaled_mins",
    "shared_weight",
]
