"""Snapshots of what readers of the history know."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"

#: As in 0001: 64 bits on both databases, texts ordered by their bytes.
_INTEGER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Make the table; the first snapshot is written when the history was read once more."""
    op.create_table(
        "snapshots",
        sa.Column("name", _TEXT, nullable=False),
        sa.Column("cluster", _TEXT, nullable=False),
        sa.Column("sequence", _INTEGER, nullable=False),
        sa.Column("version", _TEXT, nullable=False),
        sa.Column("time_us", _INTEGER, nullable=False),
        sa.Column("stream", _TEXT, nullable=False),
        sa.Column("stream_created_us", _INTEGER, nullable=False),
        sa.Column("incarnation", sa.Integer, nullable=False),
        sa.Column("chain", sa.LargeBinary, nullable=False),
        sa.Column("digest", sa.LargeBinary, nullable=False),
        sa.Column("state", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("name", "cluster", "sequence"),
        sqlite_strict=True,
    )


def downgrade() -> None:
    """Drop it."""
    op.drop_table("snapshots")
