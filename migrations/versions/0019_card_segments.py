"""Who has which part of which card: what pods hold by claims, and what is reserved."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"

#: As in 0001: 64 bits on both databases, texts ordered by their bytes.
_INTEGER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Make the tables; their rows are filled from the archive."""
    op.create_table(
        "claim_cards",
        *(sa.Column(name, _TEXT, nullable=False) for name in ("uid", "cluster", "card")),
        *(sa.Column(name, _INTEGER, nullable=False) for name in ("begin_s", "end_s", "sequence")),
        sa.PrimaryKeyConstraint("uid", "cluster", "card"),
        sqlite_strict=True,
    )
    op.create_index("claim_cards_by_card", "claim_cards", ["cluster", "card", "end_s"])
    op.create_table(
        "card_segments",
        sa.Column("uid", _TEXT, nullable=False),
        sa.Column("part", sa.Integer, nullable=False),
        *(sa.Column(name, _TEXT, nullable=False) for name in ("card", "kind", "pod_uid")),
        sa.Column("start_s", _INTEGER, nullable=False),
        sa.Column("end_s", _INTEGER),
        sa.Column("since_s", _INTEGER, nullable=False),
        *(
            sa.Column(name, _TEXT, nullable=False)
            for name in ("cluster", "namespace", "claim", "device", "node")
        ),
        sa.Column("model", _TEXT),
        sa.Column("team", _TEXT, nullable=False),
        *(sa.Column(name, _INTEGER, nullable=False) for name in ("gpu_milli", "gpu_memory_mib")),
        sa.Column("vanished", sa.Integer, nullable=False),
        sa.Column("sequence", _INTEGER, nullable=False),
        sa.PrimaryKeyConstraint("uid", "part", "card", "kind", "pod_uid", "start_s"),
        sqlite_strict=True,
    )
    op.create_index("card_segments_by_card", "card_segments", ["cluster", "card"])
    op.create_index("card_segments_by_node", "card_segments", ["cluster", "node"])
    reserved = sa.text("kind = 'reserved'")
    op.create_index(
        "card_segments_reserved", "card_segments", ["cluster", "namespace"],
        sqlite_where=reserved, postgresql_where=reserved,
    )  # fmt: skip


def downgrade() -> None:
    """Drop them; the events stay in the archive."""
    op.execute("DROP VIEW IF EXISTS v1_device_segments")
    for name in ("card_segments", "claim_cards"):
        op.drop_table(name)
