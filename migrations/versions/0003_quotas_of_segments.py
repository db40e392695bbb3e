"""Which quota a held segment belongs to, of which types are its amounts, and what quotas spent by the hour."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

#: As in 0001: 64 bits on both databases, texts ordered by their bytes.
_INTEGER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_NAMES = ("quota", "cpu_type", "gpu_type", "memory_type")
_IN_A_QUOTA = sa.text("quota <> ''")


def upgrade() -> None:
    """Add the columns and the table. Rows that are there belong to no quota until the replay that the new rules ask for."""
    for name in _NAMES:
        op.add_column("held_segments", sa.Column(name, _TEXT, nullable=False, server_default=""))
    op.create_index(
        "held_segments_by_quota",
        "held_segments",
        ["cluster", "quota", "end_s"],
        sqlite_where=_IN_A_QUOTA,
        postgresql_where=_IN_A_QUOTA,
    )
    op.add_column("pod_runs", sa.Column("deadline_s", _INTEGER))
    amounts = ("hour_s", "spent", "open_amount", "open_missed", "pods", "sequence")
    op.create_table(
        "budget_spends",
        *(sa.Column(name, _TEXT, nullable=False) for name in ("cluster", "quota", "account")),
        *(sa.Column(name, _INTEGER, nullable=False, autoincrement=False) for name in amounts),
        sa.PrimaryKeyConstraint("cluster", "quota", "account", "hour_s"),
        sqlite_strict=True,
    )


def downgrade() -> None:
    """Drop them."""
    op.drop_table("budget_spends")
    op.drop_index("held_segments_by_quota", "held_segments")
    op.drop_column("pod_runs", "deadline_s")
    for name in reversed(_NAMES):
        op.drop_column("held_segments", name)
