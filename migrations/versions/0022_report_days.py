"""Sums of reports by day, pods by when they were there, and indexes of what people ask for."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0022_from_0021"
down_revision = "0021"

#: As in 0001: 64 bits on both databases, texts ordered by their bytes.
_INTEGER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_SUMS = (
    "pods", "held_pods", "cpu_milli_s", "gpu_milli_s", "memory_mib_s", "held_s", "waiting_s", "unknown_s",
)  # fmt: skip
_TABLES = {
    "report_days_by_team": ("cluster", "team"),
    "report_days_by_model": ("cluster", "team", "model"),
    "report_days_by_node": ("cluster", "node", "team", "model"),
    "report_days": ("cluster", "team", "user_name", "namespace", "quota", "model"),
}
_INDEXES = {
    "pod_runs_idle": ("pod_runs", ["cluster", "node"], "idle IS NOT NULL"),
    "pod_runs_by_block": ("pod_runs", ["block"], ""),
    "pod_runs_by_name": ("pod_runs", ["name", "namespace", "cluster"], ""),
    "workloads_by_name": ("workloads", ["name", "namespace", "cluster"], ""),
    "grants_holding": ("grants", ["cluster", "tree", "quota"], "charge <> '{}'"),
    "card_supply_open": ("card_supply", ["cluster", "node"], "end_s IS NULL"),
    "card_segments_open": ("card_segments", ["cluster", "node"], "end_s IS NULL"),
}


def upgrade() -> None:
    """Make the table and the columns; their rows are filled from the archive."""
    op.add_column("pod_runs", sa.Column("idle", _TEXT))
    op.add_column("pod_runs", sa.Column("block", _INTEGER))
    for name, (table, columns, where) in _INDEXES.items():
        is_in = sa.text(where) if where else None
        op.create_index(name, table, columns, sqlite_where=is_in, postgresql_where=is_in)
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
    for name, (table, _, _) in _INDEXES.items():
        op.drop_index(name, table)
    for name in ("block", "idle"):
        op.drop_column("pod_runs", name)
