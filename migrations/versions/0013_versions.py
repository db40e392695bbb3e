"""The version of each projection by its name, where an older ledger has all of them in one order."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"

#: The order of the versions in a ledger written before.
_NAMES = (
    "namespaces", "nodes", "workloads", "budget_entries", "quotas", "activity", "admissions", "grants",
    "declared_quotas", "decisions", "waits", "evidence", "pod_runs", "usage", "budget_spends", "budgets",
)  # fmt: skip

_CHECKPOINTS = sa.table("checkpoints", sa.column("name"), sa.column("version"))


def upgrade() -> None:
    """Write names to the numbers. A ledger with fewer of them is older: all of its rows are filled anew."""
    for name, version in op.get_bind().execute(sa.select(_CHECKPOINTS)).fetchall():
        numbers = version.split("-")
        if len(numbers) == len(_NAMES):
            _write(name, ",".join(f"{n}={v}" for n, v in zip(_NAMES, numbers, strict=True)))


def downgrade() -> None:
    """Take the names away again."""
    for name, version in op.get_bind().execute(sa.select(_CHECKPOINTS)).fetchall():
        known = dict(part.split("=", 1) for part in version.split(",") if "=" in part)
        _write(name, "-".join(known.get(part, "0") for part in _NAMES))


def _write(name: str, version: str) -> None:
    found = _CHECKPOINTS.c.name == name
    op.get_bind().execute(_CHECKPOINTS.update().where(found).values(version=version))
