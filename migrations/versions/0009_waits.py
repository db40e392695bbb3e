"""Who waited in which queue."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"

#: As in 0001: 64 bits on both databases, texts ordered by their bytes.
_INTEGER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Make the table."""
    given = "cluster uid kind namespace name quota priority_class wanted".split()
    op.create_table(
        "waits",
        *(sa.Column(name, _TEXT, nullable=False) for name in given),
        *(sa.Column(name, _INTEGER) for name in ("created_us", "released_us", "gone_us")),
        sa.Column("waiting", sa.Integer(), nullable=False),
        sa.Column("releases", sa.Integer(), nullable=False),
        sa.Column("state", _TEXT, nullable=False),
        sa.Column("sequence", _INTEGER, nullable=False),
        sa.PrimaryKeyConstraint("cluster", "uid"),
        sqlite_strict=True,
    )
    op.create_index("waits_waiting", "waits", ["waiting", "quota"])


def downgrade() -> None:
    """Drop it; the events stay in the archive."""
    op.drop_table("waits")
