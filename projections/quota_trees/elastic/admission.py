"""Whether a pod fits into its quota, and into the quotas above it.

Pure. Source: Koordinator `plugin.go` PreFilter; docs/quotas.md.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from projections.quota_trees.elastic.shape import Refusal, Resources


class Level(msgspec.Struct, frozen=True):
    """A quota in the view of admission.

    `limit` is its runtime, or its max where runtimes are not used. `non_preemptible_used` is the usage of its pods
    without possible preemption; it must fit into `min`.
    """

    max: Resources
    used: Resources
    limit: Resources
    min: Resources = {}
    non_preemptible_used: Resources = {}


def refusal(
    request: Resources, levels: Sequence[Level], *, non_preemptible: bool = False
) -> Refusal | None:
    """Why a pod does not fit into its quota, the first of the levels, or one of those above it.

    The request is cut to the keys of the quota's max. Used and request together must be within the limit, for every
    key in both the pod's request and the limit: a key missing in a limit is free. A non-preemptible pod must also
    fit into the quota's own min. Give only the first level to skip the checks of parents. None: it fits.
    """
    own = levels[0]
    asked = {key: value for key, value in request.items() if key in own.max}
    if over := exceeded(own.used, asked, own.limit):
        return Refusal("insufficient_quota", over)
    if non_preemptible and (over := exceeded(own.non_preemptible_used, asked, own.min)):
        return Refusal("insufficient_non_preemptible_quota", over)
    for above in levels[1:]:
        if over := exceeded(above.used, asked, above.limit):
            return Refusal("insufficient_parent_quota", over)
    return None


def exceeded(used: Resources, request: Resources, limit: Resources) -> tuple[str, ...]:
    """The keys, sorted, with used and request together above the limit."""
    return tuple(
        sorted(
            key
            for key, value in request.items()
            if key in limit and used.get(key, 0) + value > limit[key]
        )
    )
