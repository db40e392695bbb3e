"""What is known of the activity of notebooks."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

#: As in 0001: 64 bits on both databases, texts ordered by their bytes.
_INTEGER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "notebook_activity",
        sa.Column("uid", _TEXT, nullable=False),
        sa.Column("cluster", _TEXT, nullable=False),
        sa.Column("observed_us", _INTEGER, nullable=False),
        sa.Column("known_us", _INTEGER),
        sa.Column("active_us", _INTEGER),
        sa.Column("active_source", _TEXT),
        sa.Column("busy", sa.Integer, nullable=False),
        sa.Column("connected", sa.Integer, nullable=False),
        sa.Column("busy_since_us", _INTEGER),
        sa.Column("outcomes", _TEXT, nullable=False),
        sa.Column("flags", _TEXT, nullable=False),
        sa.Column("state", _TEXT, nullable=False),
        sa.Column("sequence", _INTEGER, nullable=False),
        sa.PrimaryKeyConstraint("uid"),
        sqlite_strict=True,
    )


def downgrade() -> None:
    """Drop it; the events stay in the archive."""
    op.drop_table("notebook_activity")
