"""Devices that are given out by claim."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"

#: As in 0001: 64 bits on both databases, texts ordered by their bytes.
_INTEGER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Make the tables; their rows, and the new column, are filled from the archive."""
    for name in ("devices", "device_memory"):
        column = sa.Column(name, _TEXT, nullable=False, server_default=sa.text("''"))
        op.add_column("held_segments", column)
    op.create_table(
        "resource_claims",
        sa.Column("uid", _TEXT, nullable=False),
        sa.Column("cluster", _TEXT, nullable=False),
        sa.Column("namespace", _TEXT, nullable=False),
        sa.Column("name", _TEXT, nullable=False),
        sa.Column("pod_uid", _TEXT),
        sa.Column("team", _TEXT),
        sa.Column("user_name", _TEXT),
        sa.Column("created_us", _INTEGER),
        sa.Column("allocated", sa.Integer, nullable=False),
        sa.Column("vanished", sa.Integer, nullable=False),
        sa.Column("state", _TEXT, nullable=False),
        sa.Column("sequence", _INTEGER, nullable=False),
        sa.PrimaryKeyConstraint("uid"),
        sqlite_strict=True,
    )
    op.create_index("resource_claims_by_name", "resource_claims", ["cluster", "namespace", "name"])
    op.create_index("resource_claims_by_pod", "resource_claims", ["pod_uid"])
    op.create_table(
        "device_supply",
        *(
            sa.Column(name, _TEXT, nullable=False)
            for name in ("cluster", "driver", "pool", "kind", "name", "node")
        ),
        sa.Column("model", _TEXT),
        sa.Column("state", _TEXT, nullable=False),
        sa.Column("sequence", _INTEGER, nullable=False),
        sa.PrimaryKeyConstraint("cluster", "driver", "pool", "kind", "name"),
        sqlite_strict=True,
    )
    op.create_table(
        "pod_claims",
        *(
            sa.Column(name, _TEXT, nullable=False)
            for name in ("cluster", "namespace", "claim", "uid")
        ),
        sa.Column("sequence", _INTEGER, nullable=False),
        sa.PrimaryKeyConstraint("cluster", "namespace", "claim", "uid"),
        sqlite_strict=True,
    )
    op.create_table(
        "claim_devices",
        *(
            sa.Column(name, _TEXT, nullable=False)
            for name in ("uid", "cluster", "driver", "pool", "device")
        ),
        sa.Column("sequence", _INTEGER, nullable=False),
        sa.PrimaryKeyConstraint("uid", "cluster", "driver", "pool", "device"),
        sqlite_strict=True,
    )
    op.create_index(
        "claim_devices_by_device", "claim_devices", ["cluster", "driver", "pool", "device"]
    )
    op.create_table(
        "claim_lists",
        sa.Column("cluster", _TEXT, nullable=False),
        sa.Column("time_us", _INTEGER, nullable=False),
        sa.Column("first_uid", _TEXT, nullable=False),
        sa.Column("until_uid", _TEXT, nullable=False),
        sa.Column("resource_version", _TEXT, nullable=False),
        sa.Column("sequence", _INTEGER, nullable=False),
        sa.PrimaryKeyConstraint("cluster", "time_us", "first_uid"),
        sqlite_strict=True,
    )


def downgrade() -> None:
    """Drop them; the events stay in the archive."""
    # No database drops what a view reads; views are made again at every start.
    for name in (
        "devices", "claims", "usage_by_model", "usage_by_team", "usage_by_hour", "usage_by_day", "held_segments",
    ):  # fmt: skip
        op.execute(f"DROP VIEW IF EXISTS v1_{name}")
    for name in ("claim_lists", "claim_devices", "pod_claims", "device_supply", "resource_claims"):
        op.drop_table(name)
    for name in ("device_memory", "devices"):
        op.drop_column("held_segments", name)
