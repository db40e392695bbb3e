"""Quotas as their newest observation says."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

#: As in 0001: 64 bits on both databases, texts ordered by their bytes.
_INTEGER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Make the table."""
    given = ("uid", "cluster", "kind", "namespace", "name")
    said = ("parent", "tree", "hard", "cash", "min", "max", "period", "problem")
    op.create_table(
        "quotas",
        *(sa.Column(name, _TEXT, nullable=False) for name in given),
        *(sa.Column(name, _TEXT) for name in said),
        sa.Column("vanished", sa.Integer, nullable=False),
        sa.Column("state", _TEXT, nullable=False),
        sa.Column("sequence", _INTEGER, nullable=False),
        sa.PrimaryKeyConstraint("uid"),
        sqlite_strict=True,
    )
    op.create_index("quotas_by_name", "quotas", ["cluster", "name"])
    op.create_index("quotas_by_parent", "quotas", ["cluster", "parent"])


def downgrade() -> None:
    """Drop it; the events stay in the archive."""
    op.drop_table("quotas")
