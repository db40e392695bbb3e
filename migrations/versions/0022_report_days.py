"""Sums of reports by day, and pods by when they were there."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"

#: As in 0001: 64 bits on both databases, texts ordered by their bytes.
_INTEGER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_SUMS = (
    "pods", "held_pods", "cpu_milli_s", "gpu_milli_s", "memory_mib_s", "held_s", "waiting_s", "unknown_s",
)  # fmt: skip
_TABLES = {
    "report_days_by_team": ("cluster", "team", "model"),
    "report_days_by_node": ("cluster", "node", "team", "model"),
    "report_days": ("cluster", "team", "user_name", "namespace", "quota", "model"),
}


def upgrade() -> None:
    """Make the table and the columns; their rows are filled from the archive."""
    op.add_column("pod_runs", sa.Column("idle", _TEXT))
    op.add_column("pod_runs", sa.Column("block", _INTEGER))
    is_idle = sa.text("idle IS NOT NULL")
    op.create_index(
        "pod_runs_idle", "pod_runs", ["cluster", "node"], sqlite_where=is_idle, postgresql_where=is_idle
    )  # fmt: skip
    op.create_index("pod_runs_by_block", "pod_runs", ["block"])
    for table, dimensions in _TABLES.items():
        names = (*dimensions, "seen", "seen_held")
        op.create_table(
            table,
            sa.Column("day_s", _INTEGER, nullable=False),
            *(sa.Column(name, _TEXT, nullable=False) for name in names),
            sa.Column("back", _INTEGER, nullable=False),
            *(sa.Column(name, _INTEGER, nullable=False) for name in (*_SUMS, "sequence")),
            sa.PrimaryKeyConstraint("day_s", *names, "back"),
            sqlite_strict=True,
            sqlite_with_rowid=False,
        )


def downgrade() -> None:
    """Drop them; the events stay in the archive."""
    for table in _TABLES:
        op.drop_table(table)
    for name in ("pod_runs_by_block", "pod_runs_idle"):
        op.drop_index(name, "pod_runs")
    for name in ("block", "idle"):
        op.drop_column("pod_runs", name)
