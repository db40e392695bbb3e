"""Credits and refunds beside the budgets of quotas."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

#: As in 0001: 64 bits on both databases, texts ordered by their bytes.
_INTEGER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Make the table."""
    texts = ("cluster", "ref", "quota", "key")
    op.create_table(
        "budget_entries",
        *(sa.Column(name, _TEXT, nullable=False) for name in texts),
        sa.Column("amount", _INTEGER, nullable=False),
        sa.Column("reason", _TEXT, nullable=False),
        sa.Column("author", _TEXT, nullable=False),
        sa.Column("since_us", _INTEGER, nullable=False),
        sa.Column("time_us", _INTEGER, nullable=False),
        sa.Column("sequence", _INTEGER, nullable=False),
        sa.PrimaryKeyConstraint("cluster", "ref"),
        sqlite_strict=True,
    )
    op.create_index("budget_entries_by_quota", "budget_entries", ["cluster", "quota", "key"])


def downgrade() -> None:
    """Drop it; the events stay in the archive."""
    op.drop_table("budget_entries")
