"""ADAPTER: the SQL ledger. Reads rows, and writes a batch in one transaction: archive, rows, sums, parked, checkpoint.

One code path for SQLite (default) and PostgreSQL: SQLAlchemy holds the engine, the tables and the reads; writes per
event go through the driver (``executemany`` on SQLite, COPY on PostgreSQL), since Core and ORM cost 2 to 50 times
as much (tests/benchmarks/README.md). All methods are synchronous. Changes of the ledger belong to one thread;
others read, and write snapshots.

SQLite runs in WAL mode with ``synchronous=FULL``, PostgreSQL with ``synchronous_commit=on``: committed data
survives a power cut. Source: docs/reliability.md; docs/architecture.md.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from bus.crashpoints import crashpoint
from bus.envelope import Event, chain
from bus.errors import LedgerError
from projections.engine import writers
from projections.engine.changes import Changes
from projections.engine.checkpoint import Checkpoint, after
from projections.engine.contract import Key
from projections.engine.tables import checkpoints, events, parked

#: Name of the one checkpoint row: all rows of a ledger move together.
LEDGER = "ledger"

#: How long a writer waits for another one: a migration, or a program of the user's.
WAIT_SECONDS = 60

#: Names of SQLite databases without a file.
IN_MEMORY = (None, "", ":memory:")


def engine(url: str, *, read_only: bool = False) -> sa.Engine:
    """An engine for a ledger's URL, with the settings for durability.

    With ``read_only`` the database itself refuses to write, and a read-only folder is no obstacle.
    """
    parsed = sa.make_url(url)
    options: dict[str, Any] = {"pool_pre_ping": not url.startswith("sqlite")}
    is_file = parsed.get_backend_name() == "sqlite" and parsed.database not in IN_MEMORY
    if read_only and is_file:
        path = Path(str(parsed.database))
        options["creator"] = lambda: to_read(made.dialect.loaded_dbapi, path)
    made: sa.Engine = sa.create_engine(url, **options)
    if made.dialect.name == "sqlite":
        sa.event.listen(made, "connect", _sqlite_settings_read if read_only else _sqlite_settings)
        sa.event.listen(made, "begin", _sqlite_begin_read if read_only else _sqlite_begin)
    else:
        sa.event.listen(
            made, "connect", _postgres_settings_read if read_only else _postgres_settings
        )
    return made


def to_read(driver: Any, path: Path) -> Any:
    """A read-only connection to an SQLite database, also in a read-only folder. Raises LedgerError."""
    uri = readable_uri(driver, path)
    return driver.connect(uri, uri=True, check_same_thread=False)


def readable_uri(driver: Any, path: Path) -> str:
    """The URI to open an SQLite database for reading, also in a read-only folder.

    Beside a writer the write-ahead log is read with the file. In a read-only folder without a log, the database is
    open nowhere, so the file alone is read. Raises LedgerError for an unreadable log.
    """
    uri = f"{path.absolute().as_uri()}?mode=ro"
    connection = driver.connect(uri, uri=True, check_same_thread=False)
    try:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        return uri
    except driver.OperationalError as error:
        if os.access(path.absolute().parent, os.W_OK):
            raise
        log = path.with_name(f"{path.name}-wal")
        if log.exists() and log.stat().st_size:
            raise LedgerError(
                "the newest changes lie in a log that cannot be read in a folder that cannot be written: copy the "
                "folder, or open it once where it can be written",
                log=str(log),
            ) from error
    finally:
        connection.close()
    return f"{uri}&immutable=1"


def _sqlite_settings(connection: Any, _: Any) -> None:
    connection.isolation_level = None
    connection.execute(f"PRAGMA busy_timeout = {WAIT_SECONDS * 1000}")
    _write_ahead(connection)
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA cache_size = -64000")
    # A page changed by several commits is copied from the log once: 128 MB of pages, not 4.
    connection.execute("PRAGMA wal_autocheckpoint = 32768")


def _write_ahead(connection: Any) -> None:
    """Keep a write-ahead log, also where another process makes the same file at this moment.

    SQLite does not wait its busy timeout for this change, since two reading connections with a wish to write would
    wait for each other (``sqlite3_busy_handler``): if several open a new file together, the rest are refused.
    """
    # Only writers wait, and no question to the ledger shall pay for the import.
    from tenacity import Retrying, retry_if_exception_message, stop_after_delay, wait_random

    for attempt in Retrying(
        retry=retry_if_exception_message(match="database is locked"),
        stop=stop_after_delay(WAIT_SECONDS),
        wait=wait_random(0.005, 0.05),
        reraise=True,
    ):
        with attempt:
            connection.execute("PRAGMA journal_mode = WAL").fetchone()


def _sqlite_settings_read(connection: Any, _: Any) -> None:
    connection.isolation_level = None
    connection.execute("PRAGMA busy_timeout = 5000")
    connection.execute("PRAGMA cache_size = -16000")


def _sqlite_begin(connection: sa.Connection) -> None:
    is_reading = connection.get_execution_options().get("is_reading")
    connection.exec_driver_sql("BEGIN" if is_reading else "BEGIN IMMEDIATE")


def _sqlite_begin_read(connection: sa.Connection) -> None:
    connection.exec_driver_sql("BEGIN")


def _postgres_settings_read(connection: Any, _: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET default_transaction_read_only = on")
        cursor.execute("SET lock_timeout = '5s'")
    connection.commit()


def _postgres_settings(connection: Any, _: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET synchronous_commit = on")
        cursor.execute("SET lock_timeout = '5s'")
        cursor.execute("SET idle_in_transaction_session_timeout = '60s'")
    connection.commit()


@contextmanager
def looking(made: sa.Engine) -> Iterator[sa.Connection]:
    """A reading connection without a writer's locks, also from an engine for writing."""
    with made.connect().execution_options(is_reading=True) as connection:
        yield connection


class Store:
    """A ledger in a database. ``archive`` is False only in a rebuild: the events stay in the live ledger."""

    def __init__(self, made: sa.Engine, *, archive: bool = True) -> None:
        self.engine = made
        self._archive = archive
        self._writer = writers.writer(made.dialect.name)

    # reading rows (projections.engine.changes.RowReader)

    def rows(self, table: sa.Table, keys: Sequence[Key]) -> list[tuple[Any, ...]]:
        """The existing rows of ``table`` with these primary keys, or with these as prefixes, in any order."""
        with looking(self.engine) as connection:
            return self._writer.find(connection, table, keys)

    def select(
        self,
        query: sa.Select[Any] | sa.CompoundSelect[Any],
        values: Mapping[str, Any] | None = None,
    ) -> list[tuple[Any, ...]]:
        """The rows of a query, with ``values`` for its parameters."""
        with looking(self.engine) as connection:
            return [tuple(row) for row in connection.execute(query, values or {})]

    # the checkpoint

    def checkpoint(self, version: str) -> Checkpoint:
        """The position of the ledger; sequence 0 for an empty one. ``version`` is the first version of an empty one."""
        found = self.select(sa.select(checkpoints).where(checkpoints.c.name == LEDGER))
        return Checkpoint(*found[0][1:]) if found else Checkpoint(version)

    # writing

    def commit(
        self, batch: Sequence[Event], changes: Changes, checkpoint: Checkpoint
    ) -> Checkpoint:
        """Write one batch whole or not at all, and return the checkpoint after it.

        ``checkpoint`` is the one before this batch.
        """
        links = chain(checkpoint.chain, batch)
        moved = after(checkpoint, list(batch), links[-1])
        with self._transaction() as connection:
            crashpoint("store.after_begin")
            if self._archive:
                self._writer.insert(connection, events, _archived(batch, links))
            crashpoint("store.after_archive")
            self._write(connection, changes)
            self._move(connection, moved)
            crashpoint("store.before_commit")
        crashpoint("store.after_commit")
        return moved

    @contextmanager
    def _transaction(self) -> Iterator[sa.Connection]:
        with self.engine.begin() as connection:
            yield connection

    def _write(self, connection: sa.Connection, changes: Changes) -> None:
        for table, column, values in changes.deletes:
            self._writer.delete(connection, table, (column,), [(value,) for value in values])
        for table, rows in changes.upserts.items():
            self._writer.upsert(connection, table, rows)
        crashpoint("store.after_rows")
        for restatement in changes.restatements:
            self._writer.add(
                connection, restatement.table, _sums(restatement.differences), counted="pods"
            )
        crashpoint("store.after_sums")
        self._writer.upsert(
            connection, parked, [(p.sequence, p.type, p.key, p.reason) for p in changes.parked]
        )

    def _move(self, connection: sa.Connection, moved: Checkpoint) -> None:
        self._writer.upsert(
            connection,
            checkpoints,
            [
                (
                    LEDGER,
                    moved.version,
                    moved.stream,
                    moved.stream_created_us,
                    moved.incarnation,
                    moved.sequence,
                    moved.digest,
                    moved.chain,
                    moved.observed_us,
                )
            ],
        )

    def close(self) -> None:
        """Let go of all connections."""
        self.engine.dispose()


def event_of_row(row: Sequence[Any]) -> Event:
    """The event in a row of ``events``."""
    sequence, cluster, type, key, id, source, time_us, version, defect, body = row[:10]
    return Event(cluster, type, key, id, source, time_us, bytes(body), version, sequence, defect)


def chain_of_row(row: Sequence[Any]) -> bytes:
    """The chain's value in a row of ``events``, its last column."""
    return bytes(row[-1])


def _archived(batch: Sequence[Event], links: Sequence[bytes]) -> list[tuple[Any, ...]]:
    return [
        (e.sequence, e.cluster, e.type, e.key, e.id, e.source, e.time_us, e.version, e.defect, e.body, c)
        for e, c in zip(batch, links, strict=True)
    ]  # fmt: skip


def _sums(differences: Any) -> Iterable[tuple[Any, ...]]:
    return [(*group, *sums) for group, sums in differences.items()]
