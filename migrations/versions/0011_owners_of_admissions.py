"""For which child an owner's charge was raised, and what an owner was left with that went without its children."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"

#: As in 0001: texts ordered by their bytes.
_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Add the column; the rows are built anew from the archive, as their version changed."""
    op.add_column("admissions", sa.Column("below", _TEXT))


def downgrade() -> None:
    """Drop it; the events stay in the archive."""
    op.drop_column("admissions", "below")
