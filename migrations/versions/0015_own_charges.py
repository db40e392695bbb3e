"""Which objects were admitted in their own right, although they name a controller."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"

#: As in 0001: 64 bits on both databases, texts ordered by their bytes.
_INTEGER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Make the table; its rows are filled from the archive."""
    op.create_table(
        "own_charges",
        sa.Column("uid", _TEXT, nullable=False),
        sa.Column("cluster", _TEXT, nullable=False),
        sa.Column("owners", _TEXT, nullable=False),
        sa.Column("sequence", _INTEGER, nullable=False),
        sa.PrimaryKeyConstraint("uid"),
        sqlite_strict=True,
    )


def downgrade() -> None:
    """Drop it; the events stay in the archive."""
    op.drop_table("own_charges")
