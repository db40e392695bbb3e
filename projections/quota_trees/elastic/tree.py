"""A tree of elastic quotas: the variant of its rules, and the figures of each quota.

Requests travel up: a quota asks for its pods and for what its children ask, each child cut to its max; one that does not
lend asks for its min at least. Totals travel down: a quota's runtime is the total of its children. The root's total
is the cluster's less what the system quota and the default quota use; these two are beside the tree, with their max as
runtime. Quotas whose parents do not lead to the root (a parent that is not known, a circle) are no part of the tree.

With `guarantee` (Koordinator's gate ElasticQuotaGuaranteeUsage) nobody lends, and no floor is below what is in use: a
quota is guaranteed its min or, if more, what its own pods use and its children are guaranteed.
Source: Koordinator `group_quota_manager.go`; docs/quotas.md.
"""

from __future__ import annotations

import msgspec

from projections.quota_trees.elastic.runtime import Rounding, largest_remainder


class Mode(msgspec.Struct, frozen=True):
    """Which variant of the rules a tree follows.

    `scale_min`: mins shrink in proportion where a parent has less than their sum. `guarantee`:
    what is in use is guaranteed. `rounding`: of the shares.
    """

    scale_min: bool = True
    guarantee: bool = False
    rounding: Rounding = largest_remainder


class Figures(msgspec.Struct, frozen=True):
    """What is known of one quota, all with what is below it.

    `limited` is the request cut to max, `effective_min` the min after scaling; `allocated` and
    `guaranteed` are of the mode `guarantee`, else empty. `runtime` has the keys of max,
    `effective_min` those of min; the others have the keys of max and what else is not zero.
    """

    request: dict[str, int]
    limited: dict[str, int]
    used: dict[str, int]
    effective_min: dict[str, int]
    runtime: dict[str, int]
    allocated: dict[str, int]
    guaranteed: dict[str, int]
    #: The request before it is raised to the min of a quota that does not lend.
    child_request: dict[str, int] = {}
