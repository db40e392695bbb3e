"""Which node the scheduler chose for which pod."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"

#: As in 0001: 64 bits on both databases, texts ordered by their bytes.
_INTEGER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Make the table; its rows are filled from the archive."""
    op.create_table(
        "bind_decisions",
        sa.Column("cluster", _TEXT, nullable=False),
        sa.Column("uid", _TEXT, nullable=False),
        *(
            sa.Column(name, _TEXT, nullable=False)
            for name in "decision namespace name profile".split()
        ),
        sa.Column("is_shadow", sa.Integer(), nullable=False),
        sa.Column("at_us", _INTEGER, nullable=False),
        *(sa.Column(name, _TEXT, nullable=False) for name in "node cards top".split()),
        sa.Column("feasible", _INTEGER, nullable=False),
        *(sa.Column(name, _TEXT) for name in "result message".split()),
        sa.Column("settled_us", _INTEGER),
        sa.Column("sequence", _INTEGER, nullable=False),
        sa.PrimaryKeyConstraint("cluster", "uid", "decision"),
        sqlite_strict=True,
    )


def downgrade() -> None:
    """Drop it; the events stay in the archive."""
    # PostgreSQL drops no table that a view reads; views are made again at every start.
    op.execute("DROP VIEW IF EXISTS v1_bind_decisions")
    op.drop_table("bind_decisions")
