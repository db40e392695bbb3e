"""When a pod was observed to have ended, where no stamp records it, and an index of pods by their flags."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

#: Older programs go on with it, and leave the column empty.
revision = "0025_from_0021"
down_revision = "0024_from_0021"

#: As in 0001: 64 bits on both databases.
_INTEGER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_INDEXES = {
    "pod_runs_observed": (["cluster", "observed_us"], "observed_us IS NOT NULL"),
    "pod_runs_flagged": (["flags"], "flags <> '[]'"),
}


def upgrade() -> None:
    """Make the column; it is filled from the archive."""
    op.add_column("pod_runs", sa.Column("observed_us", _INTEGER))
    for name, (columns, where) in _INDEXES.items():
        is_in = sa.text(where)
        op.create_index(name, "pod_runs", columns, sqlite_where=is_in, postgresql_where=is_in)


def downgrade() -> None:
    """Drop it; the events stay in the archive."""
    for name in _INDEXES:
        op.drop_index(name, "pod_runs")
    # PostgreSQL drops no column that a view reads; views are made again at every start.
    for name in ("jobs", "attempts", "pod_runs"):
        op.execute(f"DROP VIEW IF EXISTS v1_{name}")
    op.drop_column("pod_runs", "observed_us")
