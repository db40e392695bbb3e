"""Quotas as observed."""

from __future__ import annotations

from projections.views.shape import CLUSTER, SEQUENCE, VANISHED, View, is_

_QUOTAS = View(
    "v1_quotas",
    "One row for each quota that was seen, by uid: where it stands in its tree and what it allows.",
    (
        is_("uid", "The quota's uid: a re-created namesake is another quota."),
        CLUSTER,
        is_("kind", "BizGroupResourceQuota or ElasticQuota."),
        is_("namespace", "The namespace of an ElasticQuota; empty for the other kind."),
        is_("name", "Its name."),
        is_("parent", "The name of the quota above; empty for a root."),
        is_("tree", "Koordinator's tree id; empty for the default tree."),
        is_("hard", "JSON object of its limits by key: cpu in milli-cores, others in whole units."),
        is_(
            "cash",
            "JSON object of its budgets by key: milli-core-seconds, milli-card-seconds, MiB-seconds.",
        ),
        is_("min_amounts", "JSON object of its shares by resource: what is kept for it.", "min"),
        is_("max_amounts", "JSON object of its shares by resource: the most it gets.", "max"),
        is_("period", "When its budgets begin anew: Day, Week, Month, Total or Windows."),
        is_("problem", "Why its object cannot be used, by field path; empty if it can."),
        VANISHED,
        SEQUENCE,
    ),
    "FROM quotas",
)

#: In the order of the page.
QUOTAS = (_QUOTAS,)
