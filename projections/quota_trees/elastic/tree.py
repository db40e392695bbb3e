"""A tree of elastic quotas: the variant of its rules, and the figures of each quota.

Requests travel up: a quota requests for its pods and for its children, each child cut to its max; one without
lending requests its min at least. Totals travel down: a quota's runtime is the total of its children. The root's
total is the cluster's less the use by the system quota and the default quota; these two are beside the tree, with
their max as runtime. Quotas without parents up to the root (an unknown parent, a circle) are no part of the tree.

With `guarantee` (Koordinator's gate ElasticQuotaGuaranteeUsage) lending is off, and no floor is below the current
use: a quota is guaranteed its min or, if more, its own pods' use and its children's guarantees. Source: Koordinator
`group_quota_manager.go`; docs/quotas.md.
"""

from __future__ import annotations

import msgspec

from projections.quota_trees.elastic.runtime import Rounding, largest_remainder


class Mode(msgspec.Struct, frozen=True):
    """The variant of a tree's rules.

    `scale_min`: mins shrink in proportion if a parent has less than their sum. `guarantee`: the current use is
    guaranteed. `rounding`: of the shares.
    """

    scale_min: bool = True
    guarantee: bool = False
    rounding: Rounding = largest_remainder


class Figures(msgspec.Struct, frozen=True):
    """The figures of one quota, all with everything below it.

    `limited` is the request cut to max, `effective_min` the min after scaling; `allocated` and `guaranteed` are of
    the mode `guarantee`, else empty. `runtime` has the keys of max, `effective_min` those of min; the others have
    the keys of max and other nonzero ones.
    """

    request: dict[str, int]
    limited: dict[str, int]
    used: dict[str, int]
    effective_min: dict[str, int]
    runtime: dict[str, int]
    allocated: dict[str, int]
    guaranteed: dict[str, int]
    #: The request before it is raised to the min of a quota without lending.
    child_request: dict[str, int] = {}
