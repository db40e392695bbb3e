"""How a batch of rows is written through each driver. Used by the store alone.

SQLite: ``executemany`` of prepared statements. PostgreSQL: binary COPY, through a temporary stage table where rows may
exist; below :data:`STAGED_FROM` rows plain ``executemany`` is faster (``performance.md`` section 3).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Protocol

import sqlalchemy as sa

Rows = Sequence[tuple[Any, ...]]

#: PostgreSQL: rows from which a stage table pays.
STAGED_FROM = 50


class Writer(Protocol):
    """Four ways to write rows; rows are tuples of all columns in the table's order."""

    def insert(self, connection: sa.Connection, table: sa.Table, rows: Rows) -> None:
        """Insert rows that are not there yet."""

    def upsert(self, connection: sa.Connection, table: sa.Table, rows: Rows) -> None:
        """Insert rows, or replace those with the same primary key."""

    def add(
        self,
        connection: sa.Connection,
        table: sa.Table,
        rows: Iterable[tuple[Any, ...]],
        *,
        counted: str,
    ) -> None:
        """Add amounts to rows (``sequence`` is replaced by the larger); a row whose ``counted`` falls to 0 goes."""

    def delete(
        self, connection: sa.Connection, table: sa.Table, columns: tuple[str, ...], keys: Rows
    ) -> None:
        """Delete the rows whose ``columns`` have these values."""


def writer(dialect: str) -> Writer:
    """The writer for a dialect's name."""
    return _Sqlite() if dialect == "sqlite" else _Postgres()


class _Sqlite:
    mark = "?"

    def insert(self, connection: sa.Connection, table: sa.Table, rows: Rows) -> None:
        if rows:
            connection.exec_driver_sql(_insert(table, self.mark), list(rows))

    def upsert(self, connection: sa.Connection, table: sa.Table, rows: Rows) -> None:
        if rows:
            connection.exec_driver_sql(_insert(table, self.mark) + _replaced(table), list(rows))

    def add(
        self,
        connection: sa.Connection,
        table: sa.Table,
        rows: Iterable[tuple[Any, ...]],
        *,
        counted: str,
    ) -> None:
        added = list(rows)
        if not added:
            return
        connection.exec_driver_sql(_insert(table, self.mark) + _summed(table), added)
        self._sweep(connection, table, added, counted)

    def delete(
        self, connection: sa.Connection, table: sa.Table, columns: tuple[str, ...], keys: Rows
    ) -> None:
        if keys:
            which = " AND ".join(f"{column} = {self.mark}" for column in columns)
            connection.exec_driver_sql(f"DELETE FROM {table.name} WHERE {which}", list(keys))

    def _sweep(
        self, connection: sa.Connection, table: sa.Table, added: list[tuple[Any, ...]], counted: str
    ) -> None:
        """Delete the rows among ``added`` that count nothing any more; only where something was taken out."""
        key = [column.name for column in table.primary_key.columns]
        place = list(table.columns.keys()).index(counted)
        taken = [row[: len(key)] for row in added if row[place] <= 0]
        if taken:
            which = " AND ".join(f"{column} = {self.mark}" for column in key)
            connection.exec_driver_sql(
                f"DELETE FROM {table.name} WHERE {which} AND {counted} = 0", taken
            )


class _Postgres(_Sqlite):
    mark = "%s"

    def insert(self, connection: sa.Connection, table: sa.Table, rows: Rows) -> None:
        if len(rows) < STAGED_FROM:
            super().insert(connection, table, rows)
        else:
            _copy(connection, table, table.name, rows)

    def upsert(self, connection: sa.Connection, table: sa.Table, rows: Rows) -> None:
        if len(rows) < STAGED_FROM:
            super().upsert(connection, table, rows)
        else:
            self._staged(connection, table, rows, _replaced(table))

    def add(
        self,
        connection: sa.Connection,
        table: sa.Table,
        rows: Iterable[tuple[Any, ...]],
        *,
        counted: str,
    ) -> None:
        added = list(rows)
        if len(added) < STAGED_FROM:
            super().add(connection, table, added, counted=counted)
            return
        self._staged(connection, table, added, _summed(table))
        self._sweep(connection, table, added, counted)

    def delete(
        self, connection: sa.Connection, table: sa.Table, columns: tuple[str, ...], keys: Rows
    ) -> None:
        if len(columns) == 1 and keys:
            connection.exec_driver_sql(
                f"DELETE FROM {table.name} WHERE {columns[0]} = ANY(%s)", ([k[0] for k in keys],)
            )
        else:
            super().delete(connection, table, columns, keys)

    def _staged(
        self, connection: sa.Connection, table: sa.Table, rows: Rows, conflict: str
    ) -> None:
        stage = f"stage_{table.name}"
        connection.exec_driver_sql(
            f"CREATE TEMPORARY TABLE IF NOT EXISTS {stage} (LIKE {table.name}) ON COMMIT DELETE ROWS"
        )
        _copy(connection, table, stage, rows)
        names = ", ".join(table.columns.keys())
        connection.exec_driver_sql(
            f"INSERT INTO {table.name} ({names}) SELECT {names} FROM {stage}{conflict}"
        )
        connection.exec_driver_sql(f"TRUNCATE {stage}")


def _copy(connection: sa.Connection, table: sa.Table, target: str, rows: Rows) -> None:
    names = ", ".join(table.columns.keys())
    cursor = connection.connection.cursor()
    try:
        with cursor.copy(f"COPY {target} ({names}) FROM STDIN (FORMAT BINARY)") as copy:
            copy.set_types(_types(table))
            for row in rows:
                copy.write_row(row)
    finally:
        cursor.close()


@lru_cache
def _types(table: sa.Table) -> list[str]:
    names = {sa.Text: "text", sa.LargeBinary: "bytea", sa.BigInteger: "int8", sa.Integer: "int4"}
    return [names[type(column.type)] for column in table.columns]


@lru_cache
def _insert(table: sa.Table, mark: str) -> str:
    names = ", ".join(table.columns.keys())
    marks = ", ".join(mark for _ in table.columns)
    return f"INSERT INTO {table.name} ({names}) VALUES ({marks})"


@lru_cache
def _replaced(table: sa.Table) -> str:
    key, rest = _split(table)
    changed = ", ".join(f"{name} = excluded.{name}" for name in rest)
    return f" ON CONFLICT ({', '.join(key)}) DO UPDATE SET {changed}"


@lru_cache
def _summed(table: sa.Table) -> str:
    key, rest = _split(table)
    changed = ", ".join(
        f"{name} = {table.name}.{name} + excluded.{name}" for name in rest if name != "sequence"
    )
    return f" ON CONFLICT ({', '.join(key)}) DO UPDATE SET {changed}, sequence = excluded.sequence"


def _split(table: sa.Table) -> tuple[list[str], list[str]]:
    key = [column.name for column in table.primary_key.columns]
    return key, [name for name in table.columns.keys() if name not in key]
