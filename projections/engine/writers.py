"""Writes and reads a batch of rows through each driver. Used by the store alone.

SQLite: prepared statements, one row each. PostgreSQL: binary COPY, through a temporary stage table where rows may
exist; below :data:`STAGED_FROM` rows plain ``executemany`` is faster. The texts are those of :mod:`projections.engine.statements`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import closing
from functools import lru_cache
from typing import Any, Protocol

import sqlalchemy as sa

from projections.engine import statements

Rows = Sequence[tuple[Any, ...]]

#: PostgreSQL: rows from which a stage table is faster.
STAGED_FROM = 50


class Writer(Protocol):
    """Four ways to write rows, and one to find them; rows are tuples of all columns in the table's order."""

    def find(self, connection: sa.Connection, table: sa.Table, keys: Rows) -> list[tuple[Any, ...]]:
        """The rows with these texts as primary keys, or as prefixes of them."""

    def insert(self, connection: sa.Connection, table: sa.Table, rows: Rows) -> None:
        """Insert new rows."""

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
        """Add amounts to rows (``sequence`` is replaced by the larger); a row with ``counted`` 0 is deleted."""

    def delete(
        self, connection: sa.Connection, table: sa.Table, columns: tuple[str, ...], keys: Rows
    ) -> None:
        """Delete the rows with these values in ``columns``."""


def writer(dialect: str) -> Writer:
    """The writer for a dialect's name."""
    return _Prepared(dialect) if dialect == "sqlite" else _Staged(_Prepared("postgresql"))


class _Prepared:
    """Prepared statements, one row each."""

    def __init__(self, dialect: str) -> None:
        self._dialect = dialect

    def find(self, connection: sa.Connection, table: sa.Table, keys: Rows) -> list[tuple[Any, ...]]:
        text = statements.find(self._dialect, table, len(keys[0]))
        with closing(connection.connection.cursor()) as cursor:
            return [row for key in keys for row in cursor.execute(text, key)]

    def insert(self, connection: sa.Connection, table: sa.Table, rows: Rows) -> None:
        if rows:
            connection.exec_driver_sql(statements.insert(self._dialect, table), list(rows))

    def upsert(self, connection: sa.Connection, table: sa.Table, rows: Rows) -> None:
        if rows:
            connection.exec_driver_sql(statements.upsert(self._dialect, table), list(rows))

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
        connection.exec_driver_sql(statements.add(self._dialect, table), added)
        self.sweep(connection, table, added, counted)

    def delete(
        self, connection: sa.Connection, table: sa.Table, columns: tuple[str, ...], keys: Rows
    ) -> None:
        if keys:
            text = statements.delete(self._dialect, table, columns)
            connection.exec_driver_sql(text, list(keys))

    def sweep(
        self, connection: sa.Connection, table: sa.Table, added: list[tuple[Any, ...]], counted: str
    ) -> None:
        """Delete the rows among ``added`` with a count of 0; only after a subtraction."""
        width = len(table.primary_key.columns)
        place = list(table.columns.keys()).index(counted)
        taken = [row[:width] for row in added if row[place] <= 0]
        if taken:
            connection.exec_driver_sql(statements.sweep(self._dialect, table, counted), taken)


class _Staged:
    """Binary COPY into a table, or into its stage; fewer rows by ``prepared`` statements."""

    def __init__(self, prepared: _Prepared) -> None:
        self._prepared = prepared

    def find(self, connection: sa.Connection, table: sa.Table, keys: Rows) -> list[tuple[Any, ...]]:
        text = statements.find("postgresql", table, len(keys[0]))
        arrays = [list(column) for column in zip(*keys, strict=True)]
        with closing(connection.connection.cursor()) as cursor:
            cursor.execute(text, arrays)
            return [*cursor.fetchall()]

    def insert(self, connection: sa.Connection, table: sa.Table, rows: Rows) -> None:
        if len(rows) < STAGED_FROM:
            self._prepared.insert(connection, table, rows)
        else:
            _copy(connection, table, table.name, rows)

    def upsert(self, connection: sa.Connection, table: sa.Table, rows: Rows) -> None:
        if len(rows) < STAGED_FROM:
            self._prepared.upsert(connection, table, rows)
        else:
            self._stage(connection, table, rows, statements.upsert_staged(table))

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
            self._prepared.add(connection, table, added, counted=counted)
            return
        self._stage(connection, table, added, statements.add_staged(table))
        self._prepared.sweep(connection, table, added, counted)

    def delete(
        self, connection: sa.Connection, table: sa.Table, columns: tuple[str, ...], keys: Rows
    ) -> None:
        if len(columns) == 1 and keys:
            text = statements.delete_all(table, columns[0])
            connection.exec_driver_sql(text, ([key[0] for key in keys],))
        else:
            self._prepared.delete(connection, table, columns, keys)

    def _stage(self, connection: sa.Connection, table: sa.Table, rows: Rows, text: str) -> None:
        stage = statements.STAGE.format(table.name)
        connection.exec_driver_sql(
            f"CREATE TEMPORARY TABLE IF NOT EXISTS {stage} (LIKE {table.name}) ON COMMIT DELETE ROWS"
        )
        _copy(connection, table, stage, rows)
        connection.exec_driver_sql(text)
        connection.exec_driver_sql(f"TRUNCATE {stage}")


def _copy(connection: sa.Connection, table: sa.Table, target: str, rows: Rows) -> None:
    names = ", ".join(table.columns.keys())
    with (
        closing(connection.connection.cursor()) as cursor,
        cursor.copy(f"COPY {target} ({names}) FROM STDIN (FORMAT BINARY)") as copy,
    ):
        copy.set_types(_types(table))
        for row in rows:
            copy.write_row(row)


@lru_cache
def _types(table: sa.Table) -> list[str]:
    names = {sa.Text: "text", sa.LargeBinary: "bytea", sa.BigInteger: "int8", sa.Integer: "int4"}
    return [names[type(column.type)] for column in table.columns]
