"""Who had to go so that a quota was held to again."""

from __future__ import annotations

from projections.views.shape import CLUSTER, NAMESPACE, SEQUENCE, View, is_, micros_at

_EVICTIONS = View(
    "v1_evictions",
    "One row for each eviction that was decided: which pod, why, on which numbers, and what became of it.",
    (
        CLUSTER,
        is_("id", "The decision's id, as `bursar why` takes it."),
        NAMESPACE,
        is_("name", "The name of the pod."),
        is_("uid", "Its uid."),
        is_("reason", "`budget-grace-over` or `quota-overused`."),
        is_("numbers", "The numbers behind it, a JSON object."),
        is_("is_shadow", "1 = decided and recorded, and never done."),
        micros_at("decided_at", "The tick on which it was decided.", "at_us"),
        is_("result", "done, refused, stale, gone or shadow; null while it is outstanding."),
        is_("message", "Why it was not done: the disruption budget in the way, say."),
        micros_at("settled_at", "When that was known.", "settled_us"),
        SEQUENCE,
        is_("quota", "The quota that had to be held to."),
    ),
    "FROM decisions WHERE type = 'decision.evict'",
)

#: In the order of the page.
EVICTIONS = (_EVICTIONS,)
