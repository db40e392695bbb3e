"""Devices that are given out by claim, and the claims."""

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
    "One row for each interval in which a pod held a part of a card by a claim, or nobody held what a claim has of one.",
    (
        CLUSTER,
        is_(
            "card",
            "The card: its driver, its pool, and its device, or the set of counters that its parts share.",
        ),
        is_("device", "The device that the claim was given; empty for a card that KAI shares out."),
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
            "The claim's name; of a card that KAI shares out that of the pod that reserves it.",
        ),
        is_("claim_uid", "Its uid.", "uid"),
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

#: In the order of the page.
DEVICES = (_DEVICES, _CLAIMS, _SEGMENTS)
