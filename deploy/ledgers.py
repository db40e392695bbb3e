"""Opens the ledger: for its writer, with its schema brought up to date, or for one consistent look.

Part of the composition root (:mod:`deploy.bootstrap`), apart from it so that a question needs no bus.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa

from deploy.errors import AbsentLedgerError
from deploy.settings import Settings, masked
from projections.engine.store import Store, engine


@contextmanager
def ledger(settings: Settings) -> Iterator[Store]:
    """The ledger for a writer: made if missing, its schema brought up to date. Take :func:`writer_lock` before writing."""
    # Alembic takes a second to import, which no question to the ledger should pay.
    from migrations.schema import upgrade

    _make_folder(settings)
    made = engine(settings.ledger_url)
    try:
        upgrade(made)
        yield Store(made)
    finally:
        made.dispose()


@contextmanager
def reading(settings: Settings) -> Iterator[sa.Connection]:
    """One consistent look at the ledger, also while it is written. Raises AbsentLedgerError."""
    made = reader(settings)
    try:
        with made.connect() as connection:
            if connection.dialect.name == "postgresql":
                connection.execution_options(
                    isolation_level="REPEATABLE READ", postgresql_readonly=True
                )
            with connection.begin():
                yield connection
    finally:
        made.dispose()


def reader(settings: Settings) -> sa.Engine:
    """An engine that only reads. Raises AbsentLedgerError, since looking must not create a ledger."""
    url = settings.ledger_url
    parsed = sa.make_url(url)
    if parsed.get_backend_name() == "sqlite" and not Path(parsed.database or "").is_file():
        raise AbsentLedgerError(ledger=masked(url))
    made = engine(url, read_only=True)
    if not sa.inspect(made).has_table("checkpoints"):
        made.dispose()
        raise AbsentLedgerError(ledger=masked(url))
    return made


def _make_folder(settings: Settings) -> None:
    for folder in (settings.data, _folder(settings.ledger_url)):
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)


def _folder(url: str) -> Path | None:
    parsed = sa.make_url(url)
    is_file = parsed.get_backend_name() == "sqlite"
    return Path(parsed.database or "").absolute().parent if is_file else None
