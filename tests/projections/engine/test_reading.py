"""Who only looks takes no lock, changes nothing, and needs no folder that can be written."""

import sqlite3

import pytest
import sqlalchemy as sa

from bus.errors import LedgerError
from migrations.schema import upgrade
from projections.engine import store as stores
from projections.engine.dump import snapshot
from projections.engine.segments.reading import with_links
from projections.engine.store import Store, engine, looking
from projections.engine.tables import checkpoints
from tests.deploy.ledgers import make_ledger


@pytest.fixture
def ledger(tmp_path):
    return f"sqlite:///{make_ledger(tmp_path) / 'ledger.db'}"


def beside(url):
    """A writer that waits for nobody: locked is locked."""
    driver = sqlite3.connect(url.removeprefix("sqlite:///"), timeout=0, isolation_level=None)
    driver.execute("BEGIN IMMEDIATE")
    driver.execute("UPDATE checkpoints SET observed_us = observed_us + 1")
    return driver


def test_a_look_through_the_writers_own_engine_takes_no_write_lock(ledger):
    """An import beside `up` read all ids of the archive under BEGIN IMMEDIATE: 4 to 8 s without a writer."""
    made = engine(ledger)
    with looking(made) as connection:
        connection.execute(sa.select(checkpoints)).fetchall()
        beside(ledger).execute("COMMIT")

    with made.connect() as connection:
        connection.execute(sa.select(checkpoints)).fetchall()
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            beside(ledger)
    made.dispose()


def test_every_question_of_a_store_is_answered_while_another_writes(ledger):
    made = engine(ledger)
    store = Store(made)
    sa.event.listen(made, "connect", lambda driver, _: driver.execute("PRAGMA busy_timeout = 0"))
    writer = beside(ledger)

    assert store.checkpoint("").sequence == 5
    assert len(with_links(store.select, 1, 100)) == 5
    with snapshot(store) as connection:
        assert connection.scalar(sa.select(sa.func.count()).select_from(checkpoints)) == 1
    writer.execute("ROLLBACK")
    made.dispose()


def test_a_schema_that_is_current_is_looked_at_without_a_lock(ledger):
    """Every `import` and every start does so, also while `up` writes."""
    made = engine(ledger)
    sa.event.listen(made, "connect", lambda driver, _: driver.execute("PRAGMA busy_timeout = 0"))
    writer = beside(ledger)

    assert upgrade(made)
    writer.execute("ROLLBACK")
    made.dispose()


def test_a_writer_waits_longer_than_any_batch_of_another_takes(ledger):
    made = engine(ledger)
    with made.connect() as connection:
        waits = connection.exec_driver_sql("PRAGMA busy_timeout").scalar()

    assert waits == stores.WAIT_SECONDS * 1000 >= 60_000


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def url(request, ledger):
    if request.param == "sqlite":
        return ledger
    found = request.getfixturevalue("postgres_url")
    made = engine(found)
    upgrade(made)
    made.dispose()
    return found


def test_a_database_that_is_opened_to_read_refuses_every_change(url):
    made = engine(url, read_only=True)
    for statement in (
        "DELETE FROM checkpoints",
        "CREATE TABLE t (a int)",
        "DROP TABLE checkpoints",
    ):
        with made.connect() as connection:
            with pytest.raises(sa.exc.DBAPIError, match=r"read-?\s?only"):
                connection.exec_driver_sql(statement)
    made.dispose()


def test_a_log_that_cannot_be_read_is_an_error_and_not_an_older_ledger(monkeypatch, tmp_path):
    (tmp_path / "ledger.db-wal").write_bytes(b"x" * 4096)
    monkeypatch.setattr(stores.os, "access", lambda *_: False)

    class Driver:
        OperationalError = sqlite3.OperationalError

        def connect(self, *_, **__):
            return self

        def execute(self, _):
            raise sqlite3.OperationalError("unable to open database file")

        def close(self):
            pass

    with pytest.raises(LedgerError, match="copy the folder"):
        stores.to_read(Driver(), tmp_path / "ledger.db")
