"""Devices that are given out by claim, and the claims."""

from __future__ import annotations

from projections.views.shape import CLUSTER, NAMESPACE, SEQUENCE, VANISHED, View, at, is_

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

#: In the order of the page.
DEVICES = (_DEVICES, _CLAIMS)
