"""Up to when clusters were observed, and when the source of pods was told of every change."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"

#: As in 0001: 64 bits on both databases, texts ordered by their bytes.
_INTEGER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")

#: Of these an older ledger knows when they were said. What a replay fills in is more exact: it tells kinds apart.
_OBSERVED = (
    "type LIKE 'pod.%' OR type LIKE 'pods.%' OR type LIKE 'node.%' OR type LIKE 'namespace.%'"
    " OR type LIKE 'workload.%' OR type LIKE 'quota.%' OR type LIKE 'objects.%'"
)


def upgrade() -> None:
    """Make the tables; the newest observation of each cluster is known from the archive."""
    op.create_table(
        "evidence",
        sa.Column("cluster", _TEXT, nullable=False),
        sa.Column("kind", _TEXT, nullable=False),
        sa.Column("observed_us", _INTEGER, nullable=False),
        sa.Column("sequence", _INTEGER, nullable=False),
        sa.PrimaryKeyConstraint("cluster", "kind"),
        sqlite_strict=True,
    )
    op.create_table(
        "pod_beats",
        sa.Column("cluster", _TEXT, nullable=False),
        sa.Column("time_us", _INTEGER, nullable=False),
        sa.Column("sequence", _INTEGER, nullable=False),
        sa.PrimaryKeyConstraint("cluster", "time_us"),
        sqlite_strict=True,
    )
    op.execute(
        "INSERT INTO evidence (cluster, kind, observed_us, sequence)"
        " SELECT cluster, 'pods', MAX(time_us), MAX(sequence) FROM events"
        f" WHERE {_OBSERVED} GROUP BY cluster"
    )


def downgrade() -> None:
    """Drop them; the events stay in the archive."""
    op.drop_table("pod_beats")
    op.drop_table("evidence")
