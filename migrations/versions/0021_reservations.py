"""What Reservations keep of nodes, and how much of that is used."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"

#: As in 0001: 64 bits on both databases, texts ordered by their bytes.
_INTEGER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Make the table; its rows are filled from the archive."""
    op.create_table(
        "reservations",
        *(sa.Column(name, _TEXT, nullable=False) for name in ("uid", "cluster", "name")),
        *(sa.Column(name, _TEXT) for name in ("team", "user_name")),
        *(sa.Column(name, _TEXT, nullable=False) for name in ("phase", "node")),
        sa.Column("vanished", sa.Integer, nullable=False),
        sa.Column("start_s", _INTEGER),
        sa.Column("since_s", _INTEGER, nullable=False),
        *(
            sa.Column(f"{part}_{kind}", _INTEGER, nullable=False)
            for part in ("reserved", "used")
            for kind in ("cpu_milli", "gpu_milli", "cpu_milli_s", "gpu_milli_s")
        ),
        sa.Column("state", _TEXT, nullable=False),
        sa.Column("sequence", _INTEGER, nullable=False),
        sa.PrimaryKeyConstraint("uid"),
        sqlite_strict=True,
    )


def downgrade() -> None:
    """Drop it; the events stay in the archive."""
    op.execute("DROP VIEW IF EXISTS v1_reservations")
    op.drop_table("reservations")
