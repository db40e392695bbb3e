"""The files that hold the beginning of the history."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

#: Older programs go on with it, as long as nothing is trimmed: docs/operating.md.
revision = "0023_from_0021"
down_revision = "0022_from_0021"

#: As in 0001: 64 bits on both databases, texts ordered by their bytes.
_INTEGER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Make the table, empty: what is in the archive is sealed as ever more comes."""
    op.create_table(
        "segments",
        sa.Column("sequence", _INTEGER, autoincrement=False, nullable=False),
        sa.Column("first", _INTEGER, nullable=False),
        sa.Column("place", _TEXT, nullable=False),
        sa.Column("sha256", sa.LargeBinary, nullable=False),
        sa.Column("head", sa.LargeBinary, nullable=False),
        sa.Column("trimmed", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("sequence"),
        sqlite_strict=True,
    )


def downgrade() -> None:
    """Drop it. Refused where the archive was trimmed: its beginning is in segments alone."""
    trimmed = op.get_bind().execute(sa.text("SELECT COUNT(*) FROM segments WHERE trimmed = 1"))
    if trimmed.scalar():
        raise RuntimeError("the archive was trimmed: an older version cannot read its beginning")
    op.drop_table("segments")
