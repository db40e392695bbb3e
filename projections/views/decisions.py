"""Views of the decisions of reactors and of the scheduler, with their outcomes."""

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

#: As many of the best nodes does a pass record.
_TOP = 10


def _score(node: str, dialect: str) -> str:
    """The recorded score of a node in the pass; null if it is not among the best."""
    if dialect == "sqlite":
        return f"""json_extract(top, '$."' || {node} || '"')"""
    return f"CAST(top AS json) ->> {node}"


def _agreement(dialect: str) -> str:
    return (
        "CASE WHEN is_shadow = 0 OR bound_node IS NULL OR is_newest = 0 THEN NULL"
        " WHEN node = '' THEN 'unplaced'"
        " WHEN node = bound_node THEN 'same'"
        f" WHEN {_score('bound_node', dialect)} = {_score('node', dialect)} THEN 'equal'"
        f" WHEN {_score('bound_node', dialect)} IS NOT NULL THEN 'lower'"
        f" WHEN feasible <= {_TOP} THEN 'refused' ELSE 'unrecorded' END"
    )


_OUTCOME = (
    "CASE WHEN result IN ('refused', 'lost', 'gone') THEN result"
    " WHEN is_newest = 0 THEN 'overtaken'"
    " WHEN bound_node = node THEN 'bound' WHEN bound_node IS NOT NULL THEN 'elsewhere'"
    " WHEN result IS NOT NULL THEN 'overtaken' WHEN ended_s IS NOT NULL THEN 'gone'"
    " ELSE 'waiting' END"
)

_BIND_DECISIONS = View(
    "v1_bind_decisions",
    "One row for each node that the scheduler chose for a pod, in shadow one for its newest attempt, and what became of it.",
    (
        CLUSTER,
        is_("uid", "The pod's uid."),
        NAMESPACE,
        is_("name", "The pod's name."),
        is_(
            "id", "The id of the pass, as `bursar.io/decision` on the pod has it; empty where no node took the pod.",
            "CASE WHEN is_shadow = 1 THEN shadow_pass ELSE decision END",
        ),
        is_("profile", "The scheduling profile."),
        is_("is_shadow", "1 = decided and recorded, and never bound."),
        micros_at("decided_at", "The time of the newest event that the decision knew.", "at_us"),
        is_("decided_s", "The same in whole seconds.", "at_us / 1000000"),
        is_("node", "The node that was chosen; empty where no node took the pod."),
        is_("cards", "JSON list of the cards of the node; empty where the scheduler named none."),
        is_("feasible", "How many nodes fitted."),
        is_(
            "outcome",
            "`bound` to this node, by whomever; `elsewhere`: to another one; `waiting`; `gone` before it was bound; `refused` by"
            " the API server; `lost`: not bound, and nobody knows why; `overtaken` by newer knowledge, or by a later decision.",
            _OUTCOME,
        ),
        is_("message", "Why it was not bound: a token or the API server's words."),
        is_("bound_node", "The node on which the pod is; null where it never was on one."),
        is_(
            "waited_s",
            "Seconds from the pod's creation to its start on a node; null where it never was on one.",
            "CASE WHEN bound_node IS NULL THEN NULL WHEN started_s < created_s THEN 0 ELSE started_s - created_s END",
        ),
        is_(
            "agreement",
            "Of the newest shadow of a pod that is on a node: `same` node; `equal`: another one with an equal score; `lower`: one"
            " that fitted and scored less; `refused`: one that did not fit; `unrecorded`: one that is not among the ten best that"
            " are recorded; `unplaced`: no node took the pod.",
            _agreement("sqlite"), _agreement("postgresql"),
        ),
        SEQUENCE,
    ),
    "FROM (SELECT d.*, r.node AS bound_node, r.created_s, r.start_s AS started_s, r.end_s AS ended_s,"
    " CASE WHEN EXISTS (SELECT 1 FROM bind_decisions l WHERE l.cluster = d.cluster AND l.uid = d.uid AND l.at_us > d.at_us)"
    " THEN 0 ELSE 1 END AS is_newest"
    " FROM bind_decisions d LEFT JOIN pod_runs r ON r.uid = d.uid AND r.cluster = d.cluster WHERE d.profile <> '') known",
)  # fmt: skip

#: In the order of the page.
DECISIONS = (_DECISIONS, _EVICTIONS, _BIND_DECISIONS)
