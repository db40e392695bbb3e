"""When pods, claims and slices left the complete lists: a late record of one that lists have lacked for long reads none of them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

#: Older programs go on with it, and leave the tables empty.
revision = "0027_from_0021"
down_revision = "0026_from_0021"

#: As in 0001: 64 bits on both databases, texts ordered by their bytes.
_INTEGER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_TABLES = ("pod_departures", "claim_departures", "slice_departures")


def upgrade() -> None:
    """Make the tables; their rows are filled from the archive."""
    for table in _TABLES:
        op.create_table(
            table,
            sa.Column("uid", _TEXT, nullable=False),
            sa.Column("cluster", _TEXT, nullable=False),
            sa.Column("seen_us", _INTEGER, nullable=False),
            sa.Column("missed_us", _INTEGER, nullable=False),
            sa.Column("sequence", _INTEGER, nullable=False),
            sa.PrimaryKeyConstraint("uid", "cluster", "seen_us"),
            sqlite_strict=True,
            sqlite_with_rowid=False,
        )


def downgrade() -> None:
    """Drop them; the events stay in the archive."""
    for table in _TABLES:
        op.drop_table(table)
