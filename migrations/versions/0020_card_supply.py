"""Which cards ResourceSlices offered, and when."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"

#: As in 0001: 64 bits on both databases, texts ordered by their bytes.
_INTEGER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Make the tables; their rows are filled from the archive."""
    op.create_table(
        "resource_slices",
        *(sa.Column(name, _TEXT, nullable=False) for name in ("uid", "cluster", "driver", "pool")),
        sa.Column("vanished", sa.Integer, nullable=False),
        sa.Column("state", _TEXT, nullable=False),
        sa.Column("sequence", _INTEGER, nullable=False),
        sa.PrimaryKeyConstraint("uid"),
        sqlite_strict=True,
    )
    op.create_index("resource_slices_by_pool", "resource_slices", ["cluster", "driver", "pool"])
    op.create_table(
        "card_supply",
        *(sa.Column(name, _TEXT, nullable=False) for name in ("cluster", "card")),
        sa.Column("start_s", _INTEGER, nullable=False),
        sa.Column("end_s", _INTEGER),
        sa.Column("node", _TEXT, nullable=False),
        sa.Column("model", _TEXT),
        sa.Column("origin", _TEXT, nullable=False),
        sa.Column("sequence", _INTEGER, nullable=False),
        sa.PrimaryKeyConstraint("cluster", "card", "start_s"),
        sqlite_strict=True,
    )
    op.create_index("card_supply_by_origin", "card_supply", ["origin"])
    op.create_table(
        "slice_lists",
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
    op.execute("DROP VIEW IF EXISTS v1_device_usage")
    for name in ("slice_lists", "card_supply", "resource_slices"):
        op.drop_table(name)
