"""What reactors decided, and what became of it."""

from __future__ import annotations

from projections.views.shape import CLUSTER, NAMESPACE, SEQUENCE, View, is_, micros_at

_NUMBERS = is_("numbers", "The numbers behind it, a JSON object.")
_SHADOW = is_("is_shadow", "1 = decided and recorded, and never done.")
_DECIDED = micros_at("decided_at", "The tick on which it was decided.", "at_us")
_RESULT = is_("result", "done, refused, stale, gone or shadow; null while it is outstanding.")
_SETTLED = micros_at("settled_at", "When that was known.", "settled_us")

_DECISIONS = View(
    "v1_decisions",
    "One row for each decision of a reactor: about what, why, and what became of it.",
    (
        CLUSTER,
        is_("id", "Its id, as `bursar why` and `bursar cull undo` take it."),
        is_("reactor", "Who decided."),
        is_("verb", "What: `decision.warn`, `decision.withdraw`, `decision.cull`, `decision.restore`, `decision.evict`.", "type"),
        is_("key", "The pod's uid; of a restore, the decision that it undoes."),
        is_("kind", "The kind of the object that it is done to."),
        NAMESPACE,
        is_("name", "The name of that object."),
        is_("uid", "Its uid."),
        is_("reason", "Why, a token that stays."),
        _NUMBERS, _SHADOW, _DECIDED, _RESULT,
        is_("message", "Why it was not done."),
        _SETTLED, SEQUENCE,
        is_("quota", "The quota that it is about; empty for none."),
    ),
    "FROM decisions WHERE type IS NOT NULL",
)  # fmt: skip

_EVICTIONS = View(
    "v1_evictions",
    "One row for each eviction that was decided: which pod, why, on which numbers, and what became of it.",
    (
        CLUSTER,
        is_("id", "The decision's id, as `bursar why` takes it."),
        NAMESPACE,
        is_("name", "The name of the pod."),
        is_("uid", "Its uid."),
        is_("reason", "`budget-grace-over`, `quota-overused`, `quota-preempted` or `pod-preempted`."),
        _NUMBERS, _SHADOW, _DECIDED, _RESULT,
        is_("message", "Why it was not done: the disruption budget in the way, say."),
        _SETTLED, SEQUENCE,
        is_("quota", "The quota that had to be held to; empty of `pod-preempted`."),
        is_(
            "beneficiary", "Of `quota-preempted` and `pod-preempted`, whom room is made for: kind, namespace and name; else empty.",
            "COALESCE(json_extract(body, '$.said.beneficiary'), '')",
            "COALESCE(body::json -> 'said' ->> 'beneficiary', '')",
        ),
    ),
    "FROM decisions WHERE type = 'decision.evict'",
)  # fmt: skip

#: In the order of the page.
DECISIONS = (_DECISIONS, _EVICTIONS)
