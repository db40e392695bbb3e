"""Views of notebooks: resources held while unused, and the savings of stopping them."""

from __future__ import annotations

from projections.views.shape import (
    AMOUNTS,
    CLUSTER,
    LOOKED,
    NAMESPACE,
    SEQUENCE,
    TEAM,
    USER,
    WORKLOAD,
    View,
    at,
    hours,
    is_,
    micros_at,
)

_RATES = {"cpu_milli_s": "cpu_milli", "gpu_milli_s": "gpu_milli", "memory_mib_s": "memory_mib"}
assert tuple(_RATES) == AMOUNTS


def _earlier(one: str, other: str) -> str:
    return f"CASE WHEN {one} < {other} THEN {one} ELSE {other} END"


def _later(one: str, other: str) -> str:
    return f"CASE WHEN {one} > {other} THEN {one} ELSE {other} END"


_ENDS = _earlier(f"COALESCE(p.end_s, {LOOKED})", "a.known_us / 1000000")
_IDLE = f"""WITH idle AS (
  SELECT a.uid, a.sequence, p.cluster, p.namespace, p.name, p.workload,
    {_later("COALESCE(a.active_us / 1000000, p.start_s)", "p.start_s")} AS since_s, {_ENDS} AS until_s
  FROM notebook_activity a JOIN pod_runs p ON p.uid = a.uid
  WHERE a.busy = 0 AND a.known_us IS NOT NULL AND p.start_s IS NOT NULL
), pieces AS (
  SELECT i.*, h.team, h.user_name, h.cpu_milli, h.gpu_milli, h.memory_mib,
    {_earlier("COALESCE(h.end_s, i.until_s)", "i.until_s")} - {_later("h.start_s", "i.since_s")} AS seconds
  FROM idle i JOIN held_segments h ON h.uid = i.uid
  WHERE h.start_s < i.until_s AND (h.end_s IS NULL OR h.end_s > i.since_s)
)
"""


def _sum(rate: str) -> str:
    return f"CAST(SUM({rate} * seconds) AS bigint)"


_IDLE_HOURS = View(
    "v1_idle_hours",
    "What each notebook held since it was last used, up to its end or its newest readable look, by who is charged."
    " A notebook that is busy has no row.",
    (
        CLUSTER,
        NAMESPACE,
        is_("pod", "The pod's name.", "name"),
        is_("uid", "The pod's uid."),
        WORKLOAD,
        TEAM,
        USER,
        at("since_at", "Its last activity, or its start.", "since_s"),
        at("until_at", "Up to when it is counted.", "until_s"),
        is_("idle_s", "Seconds held meanwhile.", "CAST(SUM(seconds) AS bigint)"),
        *hours({amount: _sum(rate) for amount, rate in _RATES.items()}),
        SEQUENCE,
    ),
    "FROM pieces WHERE seconds > 0\n"
    "GROUP BY cluster, namespace, name, uid, workload, team, user_name, since_s, until_s, sequence",
    _IDLE,
)

_AGAIN = (
    "SELECT MIN(n.start_s) FROM pod_runs n WHERE n.cluster = p.cluster"
    " AND n.namespace = p.namespace AND n.workload = p.workload AND n.start_s >= p.end_s"
)
_SAVED = f"""WITH culls AS (
  SELECT d.id, d.sequence, d.settled_us, d.kind, p.*, h.team AS paid_by, h.user_name AS paid_user,
    h.cpu_milli, h.gpu_milli, h.memory_mib, ({_AGAIN}) AS again_s,
    CASE WHEN EXISTS (SELECT 1 FROM decisions r WHERE r.key = d.id AND r.cluster = d.cluster
      AND r.type = 'decision.restore' AND r.result = 'done') THEN 1 ELSE 0 END AS undone
  FROM decisions d
  JOIN (SELECT uid AS pod_uid, cluster, namespace, name, workload, end_s FROM pod_runs
    WHERE end_s IS NOT NULL) p ON p.pod_uid = d.key AND p.cluster = d.cluster
  JOIN held_segments h ON h.uid = d.key AND h.start_s = (
    SELECT MAX(l.start_s) FROM held_segments l WHERE l.uid = d.key)
  WHERE d.type = 'decision.cull' AND d.result = 'done'
), saved AS (
  SELECT culls.*, COALESCE(again_s, {LOOKED}) - end_s AS seconds FROM culls
)
"""

_SAVINGS = View(
    "v1_savings",
    "One row for each notebook that was stopped by a cull: what it would have held until it was started again, or until now,"
    " by the amounts it held at its end.",
    (
        CLUSTER,
        is_("decision", "The cull's id.", "id"),
        NAMESPACE,
        is_("pod", "The name of the pod that ended.", "name"),
        WORKLOAD,
        is_("team", "The team that was charged last.", "paid_by"),
        is_("user_name", "The user that was charged last.", "paid_user"),
        micros_at("culled_at", "When it was stopped.", "settled_us"),
        at("ended_at", "When its pod ended.", "end_s"),
        at("again_at", "When the same workload ran again; null = not yet.", "again_s"),
        is_("is_undone", "1 = given back by `bursar cull undo`.", "undone"),
        is_("saved_s", "Seconds from the end to that.", "seconds"),
        *hours({amount: f"({rate} * seconds)" for amount, rate in _RATES.items()}),
        SEQUENCE,
    ),
    "FROM saved",
    _SAVED,
)

#: In the order of the page.
CULLING = (_IDLE_HOURS, _SAVINGS)
