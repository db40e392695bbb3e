"""The texts of a batch's writes and reads, by SQLAlchemy, compiled once for each table and dialect.

Every statement takes the positional parameters of the driver: work per event goes through ``executemany`` and COPY,
since SQLAlchemy's own execution costs 2 to 50 times as much (``tests/benchmarks/README.md``, ``writers``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import sqlalchemy as sa

#: The name of the stage table beside a table of PostgreSQL.
STAGE = "stage_{}"


@lru_cache
def insert(dialect: str, table: sa.Table) -> str:
    """Insert a row of all columns, in the table's order."""
    return _text(dialect, _insert(dialect, table))


@lru_cache
def upsert(dialect: str, table: sa.Table) -> str:
    """The same, or replace the row of the same primary key."""
    return _text(dialect, _or_replace(_insert(dialect, table), table))


@lru_cache
def add(dialect: str, table: sa.Table) -> str:
    """The same, or add to the row of the same primary key; ``sequence`` is replaced."""
    return _text(dialect, _or_add(_insert(dialect, table), table))


@lru_cache
def upsert_staged(table: sa.Table) -> str:
    """:func:`upsert` of all rows of the stage table (PostgreSQL)."""
    return _text("postgresql", _or_replace(_from_stage(table), table))


@lru_cache
def add_staged(table: sa.Table) -> str:
    """:func:`add` of all rows of the stage table (PostgreSQL)."""
    return _text("postgresql", _or_add(_from_stage(table), table))


@lru_cache
def find(dialect: str, table: sa.Table, width: int) -> str:
    """The rows with a primary key starting with ``width`` values: of one key for SQLite, of an array for each of
    its columns for PostgreSQL.
    """
    columns = [*table.primary_key.columns][:width]
    if dialect == "sqlite":
        return _text(dialect, sa.select(table).where(*_equal(table, [c.name for c in columns])))
    arrays = [sa.cast(sa.bindparam(c.name), sa.ARRAY(c.type)) for c in columns]
    wanted = sa.func.unnest(*arrays).table_valued(*(c.name for c in columns)).render_derived()
    is_wanted = sa.and_(*(c == wanted.c[c.name] for c in columns))
    return _text(dialect, sa.select(table).join(wanted, is_wanted))


@lru_cache
def delete(dialect: str, table: sa.Table, columns: tuple[str, ...]) -> str:
    """Delete the rows with these values of ``columns``."""
    return _text(dialect, sa.delete(table).where(*_equal(table, columns)))


@lru_cache
def delete_all(table: sa.Table, column: str) -> str:
    """Delete the rows with ``column`` in an array (PostgreSQL)."""
    some = sa.bindparam(column, type_=sa.ARRAY(table.c[column].type))
    return _text("postgresql", sa.delete(table).where(table.c[column] == sa.any_(some)))


@lru_cache
def sweep(dialect: str, table: sa.Table, counted: str) -> str:
    """Delete the row of a primary key if it counts nothing any more."""
    key = tuple(column.name for column in table.primary_key.columns)
    is_empty = table.c[counted] == sa.literal_column("0")
    return _text(dialect, sa.delete(table).where(*_equal(table, key), is_empty))


def _equal(table: sa.Table, columns: Sequence[str]) -> list[sa.ColumnElement[bool]]:
    return [table.c[name] == sa.bindparam(name) for name in columns]


def _insert(dialect: str, table: sa.Table) -> Any:
    # Only the dialect in use is imported: the other takes a tenth of a second.
    if dialect == "sqlite":
        from sqlalchemy.dialects import sqlite

        return sqlite.insert(table)
    from sqlalchemy.dialects import postgresql

    return postgresql.insert(table)


def _from_stage(table: sa.Table) -> Any:
    names = table.columns.keys()
    stage = sa.table(STAGE.format(table.name), *map(sa.column, names))
    return _insert("postgresql", table).from_select(names, sa.select(stage))


def _or_replace(statement: Any, table: sa.Table) -> Any:
    return _on_conflict(statement, table, {name: statement.excluded[name] for name in _rest(table)})


def _or_add(statement: Any, table: sa.Table) -> Any:
    new = statement.excluded
    sums = {n: table.c[n] + new[n] for n in _rest(table) if n != "sequence"}
    return _on_conflict(statement, table, {**sums, "sequence": new.sequence})


def _on_conflict(statement: Any, table: sa.Table, changed: Mapping[str, Any]) -> Any:
    return statement.on_conflict_do_update(index_elements=[*table.primary_key], set_=changed)


def _rest(table: sa.Table) -> list[str]:
    return [column.name for column in table.columns if not column.primary_key]


def _text(dialect: str, statement: Any) -> str:
    """The statement with the driver's positional marks."""
    if dialect == "sqlite":
        from sqlalchemy.dialects import sqlite

        return str(statement.compile(dialect=sqlite.dialect(paramstyle="qmark")))
    from sqlalchemy.dialects import postgresql

    made: Any = postgresql.dialect
    return str(statement.compile(dialect=made(paramstyle="format")))
