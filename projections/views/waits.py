"""Views of waiting workloads, and of past waits with durations and requests."""

from __future__ import annotations

from projections.views.shape import CLUSTER, LOOKED, NAMESPACE, SEQUENCE, TEAM, View, is_, micros_at

_NAME = is_("name", "The name of the workload.", "w.name")
_COMMON = (
    is_("cluster", CLUSTER.meaning, "w.cluster"),
    is_("uid", "The uid of the workload.", "w.uid"),
    is_("kind", "The kind of the workload.", "w.kind"),
    is_("namespace", NAMESPACE.meaning, "w.namespace"),
    _NAME,
    is_("team", TEAM.meaning, "COALESCE(n.team, 'unassigned')"),
    is_("quota", "The quota whose queue it waits in, or waited in."),
    is_("priority_class", "The priority class that its templates name."),
    is_(
        "wanted",
        "JSON object of what it asks for once it runs: `requests.<resource>` and `limits.<resource>`, cpu in"
        " milli-cores, others in whole units.",
    ),
    micros_at("created_at", "When it was made: the wait counts from here.", "created_us"),
)
_TEAM = "LEFT JOIN namespaces n ON n.cluster = w.cluster AND n.namespace = w.namespace"


def _never_negative(seconds: str) -> str:
    """The API server's clock stamps a creation, Bursar's a release: the one may be behind the other."""
    return f"CASE WHEN {seconds} < 0 THEN 0 ELSE {seconds} END"


_QUEUE = View(
    "v1_queue",
    "One row for each workload that waits now.",
    (
        *_COMMON,
        is_(
            "waited_s",
            "Since its creation, up to the ledger's moment.",
            _never_negative(f"{LOOKED} - created_us / 1000000"),
        ),
        is_("releases", "How often it was released before, and had to wait again."),
        is_("sequence", SEQUENCE.meaning, "w.sequence"),
    ),
    f"FROM waits w {_TEAM} WHERE w.waiting = 1",
)

_WAITS = View(
    "v1_waits",
    "One row for each workload that was held in a queue: how long it waited, for what.",
    (
        *_COMMON,
        is_(
            "month",
            "The month of its creation, `YYYY-MM`, UTC.",
            "strftime('%Y-%m', created_us / 1000000, 'unixepoch')",
            "to_char(timestamp 'epoch' + created_us / 1000000 * interval '1 second', 'YYYY-MM')",
        ),
        micros_at(
            "released_at", "When it was first released; null where it was not.", "released_us"
        ),
        is_(
            "waited_s",
            "From its creation to its first release; of what was deleted before, to that; of what waits, to the"
            " ledger's moment.",
            _never_negative(
                f"COALESCE(released_us / 1000000, gone_us / 1000000, {LOOKED}) - created_us / 1000000"
            ),
        ),
        is_("releases", "How often it was released: more than once if it had to wait again."),
        is_("waiting", "1 while it waits."),
        is_("sequence", SEQUENCE.meaning, "w.sequence"),
    ),
    f"FROM waits w {_TEAM} WHERE w.created_us IS NOT NULL AND (w.waiting = 1 OR w.quota <> '')",
)

#: In the order of the page.
WAITS = (_QUEUE, _WAITS)
