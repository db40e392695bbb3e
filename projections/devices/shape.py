"""The tables of claims: pods naming a claim, devices of a claim, and holders of each part of a card.

Source: docs/devices.md.
"""

from __future__ import annotations

import sqlalchemy as sa

from projections.engine.contract import Integer, partial_index, row_table

pod_claims = row_table(
    "pod_claims",
    sa.Column("cluster", sa.Text, primary_key=True),
    sa.Column("namespace", sa.Text, primary_key=True),
    sa.Column("claim", sa.Text, primary_key=True),
    sa.Column("uid", sa.Text, primary_key=True),
)

claim_devices = row_table(
    "claim_devices",
    # The claim's.
    sa.Column("uid", sa.Text, primary_key=True),
    sa.Column("cluster", sa.Text, primary_key=True),
    sa.Column("driver", sa.Text, primary_key=True),
    sa.Column("pool", sa.Text, primary_key=True),
    sa.Column("device", sa.Text, primary_key=True),
    sa.Index("claim_devices_by_device", "cluster", "driver", "pool", "device"),
)

claim_lists = row_table(
    "claim_lists",
    sa.Column("cluster", sa.Text, primary_key=True),
    sa.Column("time_us", Integer, primary_key=True),
    sa.Column("first_uid", sa.Text, primary_key=True),
    sa.Column("until_uid", sa.Text, nullable=False),
    sa.Column("resource_version", sa.Text, nullable=False),
    # Its uids are in the archive, in the body of the event ``sequence``.
)


#: The possible time of each claim on a card: read to find the claims with the same card.
claim_cards = row_table(
    "claim_cards",
    # The claim's.
    sa.Column("uid", sa.Text, primary_key=True),
    sa.Column("cluster", sa.Text, primary_key=True),
    sa.Column("card", sa.Text, primary_key=True),
    sa.Column("begin_s", Integer, nullable=False),
    # Far in the future while it goes on.
    sa.Column("end_s", Integer, nullable=False),
    sa.Index("claim_cards_by_card", "cluster", "card", "end_s"),
)

card_segments = row_table(
    "card_segments",
    # The claim's; of a card shared by KAI, the reserving pod's.
    sa.Column("uid", sa.Text, primary_key=True),
    # The number of the result of its allocations.
    sa.Column("part", sa.Integer, primary_key=True),
    sa.Column("card", sa.Text, primary_key=True),
    # "held", "reserved" or "unknown".
    sa.Column("kind", sa.Text, primary_key=True),
    # Its holder; empty without one.
    sa.Column("pod_uid", sa.Text, primary_key=True),
    sa.Column("start_s", Integer, primary_key=True),
    sa.Column("end_s", Integer),
    # The start of the reserved interval around this piece.
    sa.Column("since_s", Integer, nullable=False),
    sa.Column("cluster", sa.Text, nullable=False),
    sa.Column("namespace", sa.Text, nullable=False),
    sa.Column("claim", sa.Text, nullable=False),
    sa.Column("device", sa.Text, nullable=False),
    sa.Column("node", sa.Text, nullable=False),
    sa.Column("model", sa.Text),
    # Of the reserved part; a pod's is in its own segments.
    sa.Column("team", sa.Text, nullable=False),
    sa.Column("gpu_milli", Integer, nullable=False),
    sa.Column("gpu_memory_mib", Integer, nullable=False),
    # 1 where the claim's end is known only from a list.
    sa.Column("vanished", sa.Integer, nullable=False),
    sa.Index("card_segments_by_card", "cluster", "card"),
    sa.Index("card_segments_by_node", "cluster", "node"),
    partial_index("card_segments_open", "cluster", "node", where="end_s IS NULL"),
    partial_index("card_segments_reserved", "cluster", "namespace", where="kind = 'reserved'"),
)
