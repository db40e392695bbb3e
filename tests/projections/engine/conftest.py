"""Ledgers on each database."""

import pytest

from tests.projections.engine.archives import ledger


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def store(request, tmp_path):
    """An empty ledger, on SQLite and on PostgreSQL."""
    if request.param == "postgres":
        made = ledger(request.getfixturevalue("postgres_url"))
    else:
        made = ledger(f"sqlite:///{tmp_path / 'ledger.db'}")
    yield made
    made.close()
