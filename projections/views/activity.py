"""Views of the activity of notebooks."""

from __future__ import annotations

from projections.views.shape import LOOKED, View, is_, micros_at

_ACTIVITY = View(
    "v1_notebook_activity",
    "One row for each pod that was looked at as a notebook: when it was last active, by what evidence, and what is not known.",
    (
        is_("uid", "The pod's uid: a notebook that was restarted is another row.", "a.uid"),
        is_("cluster", "The cluster, as its source names it.", "a.cluster"),
        is_("namespace", "The pod's namespace; null where the pod itself was not seen.", "p.namespace"),
        is_("pod", "The pod's name; null where the pod itself was not seen.", "p.name"),
        micros_at("observed_at", "The newest look, whatever came of it.", "a.observed_us"),
        micros_at("known_at", "The newest look at which a source was readable; null = never.", "a.known_us"),
        micros_at("active_at", "The newest activity that any source told of; null = none.", "a.active_us"),
        is_("active_source", "The source that told of it.", "a.active_source"),
        is_(
            "idle_s",
            "Seconds from that activity to the ledger's moment; null while busy, or where none is known."
            " Whether that is too long is the culling policy's to say.",
            f"CASE WHEN a.busy = 0 THEN {LOOKED} - a.active_us / 1000000 END",
        ),
        is_("busy", "1 if a source said at its newest readable look that something works.", "a.busy"),
        micros_at(
            "busy_since_at",
            "Since when it was not seen otherwise; null = it is not busy.",
            "a.busy_since_us",
        ),
        is_("connected", "1 if a browser was connected at the newest readable look.", "a.connected"),
        is_("outcomes", "Each source and what came of its newest look: ok, unreachable, refused, malformed.", "a.outcomes"),
        is_("flags", "What was not believed: future, before_start, lying; with commas.", "a.flags"),
        is_("sequence", "The last event that touched the row; join `v1_events` on it.", "a.sequence"),
    ),
    "FROM notebook_activity AS a LEFT JOIN pod_runs AS p ON p.uid = a.uid",
)  # fmt: skip

#: In the order of the page.
ACTIVITY = (_ACTIVITY,)
