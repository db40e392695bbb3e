"""What reactors decided, and what became of it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"

#: As in 0001: 64 bits on both databases, texts ordered by their bytes.
_INTEGER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "decisions",
        *(sa.Column(name, _TEXT, nullable=False) for name in ("cluster", "id")),
        *(
            sa.Column(name, _TEXT)
            for name in "type reactor key kind namespace name uid reason".split()
        ),
        sa.Column("is_shadow", sa.Integer()),
        sa.Column("at_us", _INTEGER),
        *(sa.Column(name, _TEXT) for name in ("numbers", "result", "message")),
        sa.Column("settled_us", _INTEGER),
        sa.Column("body", _TEXT, nullable=False),
        sa.Column("sequence", _INTEGER, nullable=False),
        sa.PrimaryKeyConstraint("cluster", "id"),
        sqlite_strict=True,
    )
    op.create_index("decisions_by_key", "decisions", ["key"])


def downgrade() -> None:
    """Drop it; the events stay in the archive."""
    op.drop_table("decisions")
