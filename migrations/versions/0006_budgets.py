"""The budgets of quotas, each in the period that holds the ledger's moment."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

#: As in 0001: 64 bits on both databases, texts ordered by their bytes.
_INTEGER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "budgets",
        *(sa.Column(name, _TEXT, nullable=False) for name in ("uid", "key", "cluster", "quota")),
        sa.Column("account", _TEXT),
        sa.Column("hard", _INTEGER, nullable=False),
        sa.Column("start_s", _INTEGER, nullable=False),
        sa.Column("end_s", _INTEGER),
        sa.Column("is_granted", sa.Integer(), nullable=False),
        sa.Column("sequence", _INTEGER, nullable=False),
        sa.PrimaryKeyConstraint("uid", "key"),
        sqlite_strict=True,
    )


def downgrade() -> None:
    """Drop it."""
    op.drop_table("budgets")
