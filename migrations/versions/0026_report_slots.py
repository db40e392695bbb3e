"""Sums of reports for days that a period cuts, and an index of pods by when they were there."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

#: Older programs go on with it, and leave the table empty.
revision = "0026_from_0021"
down_revision = "0025_from_0021"

#: As in 0001: 64 bits on both databases, texts ordered by their bytes.
_INTEGER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_NAMES = (
    "cluster", "team", "user_name", "namespace", "quota", "model", "node", "seen", "seen_held",
)  # fmt: skip
_SUMS = (
    "pods", "held_pods", "cpu_milli_s", "gpu_milli_s", "memory_mib_s", "held_s", "waiting_s", "unknown_s",
)  # fmt: skip


def upgrade() -> None:
    """Make the table, which is filled from the archive, and the index."""
    op.create_table(
        "report_slots",
        sa.Column("slot_s", _INTEGER, nullable=False),
        *(sa.Column(name, _TEXT, nullable=False) for name in _NAMES),
        sa.Column("back", _INTEGER, nullable=False),
        *(sa.Column(name, _INTEGER, nullable=False) for name in (*_SUMS, "sequence")),
        sa.PrimaryKeyConstraint("slot_s", *_NAMES, "back"),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
    op.drop_index("pod_runs_by_block", "pod_runs")
    op.create_index("pod_runs_by_block", "pod_runs", ["block", "created_s", "end_s", "unknown_s"])


def downgrade() -> None:
    """Drop them; the events stay in the archive."""
    op.drop_index("pod_runs_by_block", "pod_runs")
    op.create_index("pod_runs_by_block", "pod_runs", ["block"])
    op.drop_table("report_slots")
