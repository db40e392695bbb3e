"""The tables of who has which claim: pods by the claims that they name, and claims by the devices that they were given.

Source: docs/devices.md.
"""

from __future__ import annotations

import sqlalchemy as sa

from projections.engine.contract import Integer, row_table

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
