"""DOOR: the SQL ledger. Reads rows, and writes a batch in one transaction: archive, rows, sums, parked, checkpoint.

One code path for SQLite (default) and PostgreSQL: SQLAlchemy holds the engine, the tables and the reads; what is
written per event goes through the driver (``executemany`` on SQLite, COPY on PostgreSQL), since Core and ORM cost 2 to
50 times as much (``performance.md`` section 3). All methods are synchronous and belong to one thread.

SQLite runs in WAL mode with ``synchronous=FULL``, PostgreSQL with ``synchronous_commit=on``: what was committed is
there after a power cut. Source: ``reliability.md`` 1.6; ``house.md`` section 4.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa

from bus.crashpoints import crashpoint
from bus.envelope import Event, chain
from projections.engine import writers
from projections.engine.checkpoint import Checkpoint, after
from projections.engine.contract import Key
from projections.engine.tables import checkpoints, events, parked

#: Name of the one checkpoint row: all rows of a ledger move together.
LEDGER = "ledger"

#: Keys of one read; SQLite allows 32,766 parameters, PostgreSQL 65,535.
CHUNK = 5_000


def engine(url: str, *, read_only: bool = False) -> sa.Engine:
    """An engine for a ledger's URL, with the settings that durability needs."""
    made = sa.create_engine(url, pool_pre_ping=not url.startswith("sqlite"))
    if made.dialect.name == "sqlite":
        sa.event.listen(made, "connect", _sqlite_settings)
        sa.event.listen(made, "begin", _sqlite_begin_read if read_only else _sqlite_begin)
    else:
        sa.event.listen(made, "connect", _postgres_settings)
    return made


def _sqlite_settings(connection: Any, _: Any) -> None:
    connection.isolation_level = None
    connection.execute("PRAGMA busy_timeout = 5000")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA cache_size = -16000")


def _sqlite_begin(connection: sa.Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _sqlite_begin_read(connection: sa.Connection) -> None:
    connection.exec_driver_sql("BEGIN")


def _postgres_settings(connection: Any, _: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET synchronous_commit = on")
        cursor.execute("SET lock_timeout = '5s'")
        cursor.execute("SET idle_in_transaction_session_timeout = '60s'")
    connection.commit()


class Store:
    """A ledger in a database. ``archive`` is False only in a rebuild, where the events stay where they are."""

    def __init__(self, made: sa.Engine, *, archive: bool = True) -> None:
        self.engine = made
        self._archive = archive
        self._writer = writers.writer(made.dialect.name)

    # the shelf (projections.changes.Shelf)

    def rows(self, table: sa.Table, keys: Sequence[Key]) -> list[tuple[Any, ...]]:
        """The rows of ``table`` with these primary keys, those that there are, in any order."""
        columns = [*table.primary_key.columns][: len(keys[0])]
        found: list[tuple[Any, ...]] = []
        for start in range(0, len(keys), CHUNK):
            part = keys[start : start + CHUNK]
            if len(columns) == 1:
                which = columns[0].in_([key[0] for key in part])
            else:
                which = sa.tuple_(*columns).in_(part)
            found += self.select(sa.select(table).where(which))
        return found

    def select(self, query: sa.Select[Any]) -> list[tuple[Any, ...]]:
        """The rows of a query."""
        with self.engine.connect() as connection:
            return [tuple(row) for row in connection.execute(query)]

    # the checkpoint

    def checkpoint(self, version: str) -> Checkpoint:
        """How far the ledger is; sequence 0 for an empty one. ``version`` is what an empty one will be written with."""
        found = self.select(sa.select(checkpoints).where(checkpoints.c.name == LEDGER))
        return Checkpoint(*found[0][1:]) if found else Checkpoint(version)

    # writing

    def commit(self, batch: Sequence[Event], changes: Any, checkpoint: Checkpoint) -> Checkpoint:
        """Write one batch whole or not at all, and return the checkpoint after it.

        ``changes`` is a :class:`projections.changes.Changes`. ``checkpoint`` is the one that this batch follows.
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

    def _write(self, connection: sa.Connection, changes: Any) -> None:
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

    # the archive

    def archived(self, first: int, count: int) -> list[tuple[Event, bytes]]:
        """Up to ``count`` events from sequence ``first`` on, in order, each with the chain's value at it."""
        query = (
            sa.select(events)
            .where(events.c.sequence >= first)
            .order_by(events.c.sequence)
            .limit(count)
        )
        return [(event_of_row(row), bytes(row[10])) for row in self.select(query)]

    def close(self) -> None:
        """Let go of all connections."""
        self.engine.dispose()


def event_of_row(row: Sequence[Any]) -> Event:
    """The event in a row of ``events``."""
    return Event(
        row[1], row[2], row[3], row[4], row[5], row[6], bytes(row[9]), row[7], row[0], row[8]
    )


def _archived(batch: Sequence[Event], links: Sequence[bytes]) -> list[tuple[Any, ...]]:
    return [
        (e.sequence, e.cluster, e.type, e.key, e.id, e.source, e.time_us, e.version, e.defect, e.body, c)
        for e, c in zip(batch, links, strict=True)
    ]  # fmt: skip


def _sums(differences: Any) -> Iterable[tuple[Any, ...]]:
    return [(*group, *sums) for group, sums in differences.items()]
