"""Devices allocated by claim, and the claims."""

from __future__ import annotations

from projections.views.shape import CLUSTER, NAMESPACE, SEQUENCE, VANISHED, View, at, is_, moment

_DEVICES = View(
    "v1_devices",
    "One row for each device that a ResourceSlice ever showed: a card, a part of one, or another device.",
    (
        CLUSTER,
        is_("driver", "The driver that offers it."),
        is_("pool", "Its pool."),
        is_("device", "Its name in the pool.", "name"),
        is_("node", "Its node, by the newest slice; empty for none."),
        is_("model", "The product name that its driver gives it; NULL for none."),
        SEQUENCE,
    ),
    "FROM device_supply\nWHERE kind = 'device'",
)

_CLAIMS = View(
    "v1_claims",
    "One row for each ResourceClaim that was ever seen, by uid.",
    (
        is_("uid", "The claim's uid: a re-created namesake is another claim."),
        CLUSTER,
        NAMESPACE,
        is_("name", "The claim's name."),
        is_("pod_uid", "The pod that Kubernetes made it for; NULL for one that pods name."),
        is_("team", "The team its label names; NULL for none."),
        is_("user_name", "The user its label names; NULL for none."),
        is_("created_s", "When it was created.", "(created_us / 1000000)"),
        at("created_at", "The same as text.", "(created_us / 1000000)"),
        is_("allocated", "1 where its newest observation has devices."),
        VANISHED,
        SEQUENCE,
    ),
    "FROM resource_claims",
)

_SEGMENTS = View(
    "v1_device_segments",
    "One row for each interval in which a pod held a part of a card by a claim or by Koordinator's rules,"
    " or nobody held what a claim has of one.",
    (
        CLUSTER,
        is_(
            "card",
            "The card: its driver, its pool, and its device, or the set of counters that its parts share;"
            " `koordinator`, its node and its number where Koordinator's rules gave it.",
        ),
        is_(
            "device",
            "The device that the claim was given, or the uuid that Koordinator's annotation names;"
            " empty for a card that KAI shares out.",
        ),
        is_("node", "The node of the card; empty for none."),
        is_("model", "Its model; NULL where none is known."),
        is_(
            "kind",
            "`held` by a pod; `reserved`: a claim has it and no pod holds it;"
            " `unknown`: nobody saw when a pod that held it ended.",
        ),
        NAMESPACE,
        is_(
            "claim",
            "The claim's name; of a card that KAI shares out that of the pod that reserves it; empty for one of Koordinator.",
        ),
        is_("claim_uid", "Its uid; of a card of Koordinator the pod's.", "uid"),
        is_("pod_uid", "The pod that holds it; empty for nobody."),
        is_(
            "team",
            "Of what is reserved: the team of the claim, its owner or its namespace; else empty, see the pod's own segments.",
        ),
        is_("since_s", "Where the reserved interval began of which this row is a piece."),
        is_("start_s", "The first second of the interval."),
        at("start_at", "The same as text.", "start_s"),
        is_("end_s", "The second after the interval; NULL while it is open."),
        at("end_at", "The same as text.", "end_s"),
        is_("gpu_milli", "What it is of the card, in thousandths."),
        is_("gpu_memory_mib", "Device memory held, in MiB."),
        is_("vanished", "1 where the claim's end is known only from a list that lacked it."),
        SEQUENCE,
    ),
    f"FROM card_segments\nWHERE end_s IS NOT NULL OR since_s + 1 < {moment('card_segments.cluster')}",
)

#: The holders of a card over time: milli-cards of each kind, and the idle part while a slice offers it.
_RATES = f"""WITH RECURSIVE closed AS (
  SELECT cluster, card, kind, gpu_milli, start_s, COALESCE(end_s, {moment("card_segments.cluster")}) AS end_s, node, model, sequence
  FROM card_segments
  WHERE substr(card, 1, 16) <> 'runai-gpu-group/' AND (end_s IS NOT NULL OR since_s + 1 < {moment("card_segments.cluster")})
), offered AS (
  SELECT cluster, card, start_s, COALESCE(end_s, {moment("card_supply.cluster")}) AS end_s, node, model, sequence
  FROM card_supply
), rates AS (
  SELECT cluster, card, node, model, start_s, end_s, sequence,
    CASE WHEN kind = 'held' THEN gpu_milli ELSE 0 END AS held, CASE WHEN kind = 'reserved' THEN gpu_milli ELSE 0 END AS reserved,
    CASE WHEN kind = 'unknown' THEN gpu_milli ELSE 0 END AS lost, 0 AS idle
  FROM closed
  UNION ALL
  SELECT cluster, card, node, model, start_s, end_s, sequence, 0, 0, 0, 1000 FROM offered
  UNION ALL
  SELECT o.cluster, o.card, o.node, o.model, CASE WHEN o.start_s > c.start_s THEN o.start_s ELSE c.start_s END,
    CASE WHEN o.end_s < c.end_s THEN o.end_s ELSE c.end_s END, c.sequence, 0, 0, 0, -c.gpu_milli
  FROM offered o JOIN closed c ON c.cluster = o.cluster AND c.card = o.card AND c.start_s < o.end_s AND o.start_s < c.end_s
), days AS (
  SELECT rates.*, (start_s / 86400) * 86400 AS day_s FROM rates WHERE start_s < end_s
  UNION ALL
  SELECT cluster, card, node, model, start_s, end_s, sequence, held, reserved, lost, idle, day_s + 86400
  FROM days WHERE day_s + 86400 < end_s
), cut AS (
  SELECT days.*, CASE WHEN day_s + 86400 < end_s THEN day_s + 86400 ELSE end_s END
    - CASE WHEN day_s > start_s THEN day_s ELSE start_s END AS seconds
  FROM days
)
"""


def _milli_s(kind: str) -> str:
    return f"CAST(SUM({kind} * seconds) AS bigint)"


_USAGE = View(
    "v1_device_usage",
    "One row for each card that a ResourceSlice showed, a claim was given or Koordinator's rules gave, and day (UTC):"
    " held, reserved, unknown and idle make up its supply.",
    (
        is_("day_s", "The first second of the day."),
        at("day_at", "The same as text.", "day_s"),
        CLUSTER,
        is_("card", "The card, as in `v1_device_segments`."),
        is_("node", "Its node; empty for none.", "MAX(node)"),
        is_("model", "Its model; NULL where none is known.", "MAX(model)"),
        is_("held_gpu_milli_s", "Held by pods, in milli-card-seconds.", _milli_s("held")),
        is_("reserved_gpu_milli_s", "A claim had it and no pod held it.", _milli_s("reserved")),
        is_("unknown_gpu_milli_s", "Nobody saw when a pod that held it ended.", _milli_s("lost")),
        is_("idle_gpu_milli_s", "Nobody had it while a slice offered it.", _milli_s("idle")),
        is_(
            "supply_gpu_milli_s",
            "The sum of these four.",
            _milli_s("(held + reserved + lost + idle)"),
        ),
        is_("sequence", "The last event that changed a share of this row.", "MAX(sequence)"),
    ),
    "FROM cut\nGROUP BY day_s, cluster, card",
    _RATES,
)

#: In the order of the page.
DEVICES = (_DEVICES, _CLAIMS, _SEGMENTS, _USAGE)
