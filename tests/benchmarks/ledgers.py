"""Fresh SQLite ledgers for benchmarks, the plain loop that fills one, and the proof that two hold the same rows."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa

from bus.envelope import from_line
from projections.catalogue import METADATA, MODEL
from projections.engine import statements
from projections.engine.changes import Changes
from projections.engine.folder import Folder
from projections.engine.store import Store, engine

T = TypeVar("T")

BATCH = 1000


def fresh(path: Path, *, archive: bool) -> Store:
    """An empty ledger in a file of its own, tables made."""
    store = Store(engine(f"sqlite:///{path}"), archive=archive)
    METADATA.create_all(store.engine)
    return store


def rows_of(store: Store) -> dict[str, Any]:
    """How many rows each table has, and one digest over their content."""
    sums = hashlib.sha256()
    counts: dict[str, Any] = {}
    for table in MODEL.tables:
        rows = store.select(sa.select(table).order_by(*table.primary_key))
        counts[table.name] = len(rows)
        sums.update(repr((table.name, rows)).encode())
    return {**counts, "digest": sums.hexdigest()[:16]}


def parts(items: Iterable[T], size: int = BATCH) -> Iterator[list[T]]:
    """``items`` in lists of ``size``."""
    iterator = iter(items)
    while part := list(islice(iterator, size)):
        yield part


def plain_loop(lines: Path, store: Store) -> int:
    """Read NDJSON, decode, the product's folds, raw ``sqlite3`` with the product's statements: nothing else.

    The least that a ledger of these rows can cost in Python: no bus, no thread, no SQLAlchemy for what is written, no
    hash chain, no checkpoint. ``store`` only looks up rows that are not in memory. Returns the events folded.
    """
    connection = sqlite3.connect(store.engine.url.database or "", isolation_level=None)
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "cache_size = -16000"):
        connection.execute(f"PRAGMA {pragma}")
    folder = Folder(MODEL, store)
    folder.open()
    count = 0
    with lines.open("rb") as file:
        for part in parts(file):
            changes = folder.fold([from_line(line) for line in part])
            connection.execute("BEGIN IMMEDIATE")
            _write(connection, changes)
            connection.execute("COMMIT")
            folder.settle()
            count += len(part)
    connection.close()
    return count


def _write(connection: sqlite3.Connection, changes: Changes) -> None:
    for table, column, values in changes.deletes:
        connection.executemany(
            f"DELETE FROM {table.name} WHERE {column} = ?", [(v,) for v in values]
        )
    for table, rows in changes.upserts.items():
        connection.executemany(statements.upsert("sqlite", table), rows)
    for restatement in changes.restatements:
        table = restatement.table
        added = [(*group, *sums) for group, sums in restatement.differences.items()]
        connection.executemany(statements.add("sqlite", table), added)
        key = [column.name for column in table.primary_key]
        place = list(table.columns.keys()).index("pods")
        which = " AND ".join(f"{name} = ?" for name in key)
        taken = [row[: len(key)] for row in added if row[place] <= 0]
        connection.executemany(f"DELETE FROM {table.name} WHERE {which} AND pods = 0", taken)
