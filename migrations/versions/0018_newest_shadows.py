"""The pass of a shadow, of which a pod has one row."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"

#: As in 0001: texts ordered by their bytes.
_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Make the column; the rows are filled from the archive."""
    op.add_column(
        "bind_decisions",
        sa.Column("shadow_pass", _TEXT, nullable=False, server_default=sa.text("''")),
    )


def downgrade() -> None:
    """Drop it."""
    # PostgreSQL drops no column that a view reads; views are made again at every start.
    op.execute("DROP VIEW IF EXISTS v1_bind_decisions")
    op.drop_column("bind_decisions", "shadow_pass")
