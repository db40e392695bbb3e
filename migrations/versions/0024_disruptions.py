"""Why others ended a pod."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

#: Older programs go on with it, and leave the column empty.
revision = "0024_from_0021"
down_revision = "0023_from_0021"

#: As in 0001: texts ordered by their bytes.
_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Make the column; it is filled from the archive."""
    op.add_column("pod_runs", sa.Column("disruption", _TEXT))


def downgrade() -> None:
    """Drop it; the events stay in the archive."""
    # PostgreSQL drops no column that a view reads; views are made again at every start.
    for name in ("jobs", "attempts", "pod_runs"):
        op.execute(f"DROP VIEW IF EXISTS v1_{name}")
    op.drop_column("pod_runs", "disruption")
