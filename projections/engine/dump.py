"""The ledger's rows in one order on every database: the input of digests and comparisons.

Rows come sorted by primary key, texts by their UTF-8 bytes (SQLite's BINARY, PostgreSQL's collation "C"), a few
thousand at a time, so memory does not grow with the ledger. All reading happens in one read transaction, beside a
writer that goes on.

**The digest** is SHA-256 over every row table: a line with its name, then one line of JSON per row, integers and
UTF-8 texts only. It leaves out the ``sequence`` columns, and nothing else: the last event of a row depends on the
order of events (also in ``pod_lists``, the event with the uids), the rest is a function of their set. Archive,
checkpoint and parked events are no part of it: the chain speaks for them.

Source: docs/reliability.md (canonical dump).
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
import sqlalchemy as sa

from projections.engine.model import Model
from projections.engine.store import Store, engine

#: Rows held at a time.
PART = 5_000

_encoder = msgspec.json.Encoder()
_numbers = itertools.count()


@contextmanager
def snapshot(store: Store) -> Iterator[sa.Connection]:
    """A connection with one moment of the ledger. It blocks no writer."""
    url = store.engine.url
    if store.engine.dialect.name == "sqlite" and url.database in (None, "", ":memory:"):
        with store.engine.connect() as connection:
            yield connection
        return
    made = engine(url.render_as_string(hide_password=False), read_only=True)
    try:
        with made.connect() as connection:
            if made.dialect.name == "postgresql":
                connection = connection.execution_options(isolation_level="REPEATABLE READ")
            with connection.begin():
                yield connection
    finally:
        made.dispose()


def stream(
    connection: sa.Connection, statement: str, parameters: Sequence[Any] = ()
) -> Iterator[list[tuple[Any, ...]]]:
    """The rows of a statement in the driver's words, in lists of at most :data:`PART`."""
    # Begins SQLAlchemy's transaction: the driver's cursors read inside it.
    if not connection.in_transaction():
        connection.begin()
    if connection.dialect.name == "sqlite":
        cursor: Any = connection.connection.cursor()
    else:
        driver: Any = connection.connection.driver_connection
        cursor = driver.cursor(name=f"rows_{next(_numbers)}")
    try:
        cursor.execute(statement, parameters)
        while rows := cursor.fetchmany(PART):
            yield rows
    finally:
        # A failed reader may end after its connection, with a closed cursor.
        if not connection.closed:
            cursor.close()


def sorted_rows(
    connection: sa.Connection, table: sa.Table, *, sequence: bool = True
) -> Iterator[list[tuple[Any, ...]]]:
    """The rows of a table by primary key, with or without their ``sequence`` column."""
    chosen = [c.name for c in table.columns if sequence or c.name != "sequence"]
    is_postgres = connection.dialect.name == "postgresql"
    order = [
        f'{c.name} COLLATE "C"' if is_postgres and isinstance(c.type, sa.Text) else c.name
        for c in table.primary_key.columns
    ]
    return stream(
        connection, f"SELECT {', '.join(chosen)} FROM {table.name} ORDER BY {', '.join(order)}"
    )


def digest(model: Model, store: Store, progress: Callable[[str], None] | None = None) -> str:
    """SHA-256 over all rows of a model, hexadecimal: equal for equal figures on any database. ``progress``: each table's name."""
    hashed = hashlib.sha256()
    with snapshot(store) as connection:
        for table in model.tables:
            if progress is not None:
                progress(table.name)
            hashed.update(f"{table.name}\n".encode())
            for rows in sorted_rows(connection, table, sequence=False):
                hashed.update(_encoder.encode_lines(rows))
    return hashed.hexdigest()
