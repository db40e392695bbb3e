"""What the journals of quota trees say: decisions, what quotas hold, and which quotas stand."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

#: As in 0001: 64 bits on both databases, texts ordered by their bytes.
_INTEGER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def _texts(names: str) -> list[sa.Column[str]]:
    return [sa.Column(name, _TEXT, nullable=False) for name in names.split()]


def _integers(names: str) -> list[sa.Column[int]]:
    return [sa.Column(name, _INTEGER, nullable=False) for name in names.split()]


def _flag(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.Integer(), nullable=False)


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "admissions",
        *_texts("cluster id tree"),
        *_integers("number time_us"),
        *_texts("quota uid kind namespace name verdict reason operation request"),
        *_integers("based_on"),
        *_texts("demand types charge deficits"),
        *_integers("sequence"),
        sa.PrimaryKeyConstraint("cluster", "id"),
        sqlite_strict=True,
    )
    op.create_index("admissions_by_uid", "admissions", ["uid"])
    op.create_index("admissions_by_quota", "admissions", ["cluster", "quota", "number"])
    op.create_index("admissions_by_name", "admissions", ["cluster", "namespace", "name"])
    op.create_table(
        "grants",
        *_texts("cluster tree quota uid kind namespace name"),
        *_integers("number decided_us"),
        _flag("is_adopted"),
        *_integers("charge_number"),
        *_texts("charge"),
        *_integers("sequence"),
        sa.PrimaryKeyConstraint("cluster", "tree", "quota", "uid"),
        sqlite_strict=True,
    )
    op.create_index("grants_by_uid", "grants", ["uid"])
    op.create_table(
        "declared_quotas",
        *_texts("cluster tree quota uid kind parent"),
        _flag("stands"),
        _flag("pending"),
        *_integers("gone_number"),
        *_texts("hard claims state"),
        *_integers("sequence"),
        sa.PrimaryKeyConstraint("cluster", "tree", "quota"),
        sqlite_strict=True,
    )
    op.create_index("declared_quotas_by_parent", "declared_quotas", ["cluster", "tree", "parent"])


def downgrade() -> None:
    """Drop them; the events stay in the archive."""
    for table in ("declared_quotas", "grants", "admissions"):
        op.drop_table(table)
