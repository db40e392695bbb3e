"""Free SQL against the ledger, without trust in who asks: read-only, one statement, limited in time and rows.

SQLite: an authorizer allows reading tables and plain functions and nothing else, and the engine is stopped by a
progress handler. PostgreSQL: a read-only transaction with a statement time-out that is rolled back; what a role may reach
beyond tables (``COPY … PROGRAM``, server files) is that role's business, so ask with one that may only read.

Source: ``reliability.md`` section 4, G5.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import msgspec
import sqlalchemy as sa

from deploy.errors import SettingsError
from deploy.ledgers import reader
from deploy.settings import Settings

#: Most rows of an answer.
ROWS = 10_000

#: Longest text or blob that a query may build, bytes; memory is bounded with it.
LONGEST = 16 * 1024 * 1024

#: Actions that SQLite's authorizer lets pass, by the driver's names.
_ALLOWED = ("SQLITE_SELECT", "SQLITE_READ", "SQLITE_FUNCTION", "SQLITE_RECURSIVE")
#: Functions that read files or load code.
_REFUSED_FUNCTIONS = {"load_extension", "readfile", "writefile", "edit", "fts3_tokenizer"}


class Answer(msgspec.Struct):
    """Rows of a query; ``is_cut``: there were more."""

    columns: list[str]
    rows: list[list[Any]]
    is_cut: bool = False


class RefusedQueryError(SettingsError):
    """The query is not one that may be asked here."""


def ask(settings: Settings, query: str, *, rows: int = ROWS, seconds: float = 5.0) -> Answer:
    """The answer to one query. Raises RefusedQueryError saying why, AbsentLedgerError."""
    made = reader(settings)
    try:
        with made.connect() as connection:
            if made.dialect.name == "sqlite":
                return _sqlite(connection, query, rows, seconds)
            return _postgres(connection, query, rows, seconds)
    finally:
        made.dispose()


def _sqlite(connection: sa.Connection, query: str, rows: int, seconds: float) -> Answer:
    # The driver that the ledger's door has loaded: only doors import one.
    sqlite: Any = connection.dialect.loaded_dbapi
    driver: Any = connection.connection.driver_connection
    driver.execute("PRAGMA query_only = 1")
    driver.setlimit(sqlite.SQLITE_LIMIT_LENGTH, LONGEST)
    driver.setlimit(sqlite.SQLITE_LIMIT_ATTACHED, 0)
    ends = time.monotonic() + seconds
    driver.set_progress_handler(lambda: int(time.monotonic() > ends), 10_000)
    refused: list[str] = []
    driver.set_authorizer(_authorizer(sqlite, refused))
    try:
        cursor = driver.execute(query)
        return _answer(cursor, rows)
    except sqlite.Error as error:
        if refused:
            raise RefusedQueryError(f"refused: {refused[0]}; only reading is allowed") from None
        if "interrupted" in str(error):
            raise RefusedQueryError(f"stopped after {seconds:g} s (--timeout)") from None
        raise RefusedQueryError(f"the query failed: {error}") from None
    finally:
        driver.set_authorizer(None)
        driver.set_progress_handler(None, 0)


def _authorizer(sqlite: Any, refused: list[str]) -> Callable[..., int]:
    names = {
        value: name.removeprefix("SQLITE_")
        for name, value in vars(sqlite).items()
        if name.startswith(("SQLITE_CREATE", "SQLITE_DROP", "SQLITE_ALTER", "SQLITE_AT", "SQLITE_DET"))
        or name in ("SQLITE_INSERT", "SQLITE_UPDATE", "SQLITE_DELETE", "SQLITE_PRAGMA",
                    "SQLITE_TRANSACTION", "SQLITE_SAVEPOINT", "SQLITE_REINDEX", "SQLITE_ANALYZE")
    }  # fmt: skip

    allowed = {getattr(sqlite, name) for name in _ALLOWED}

    def authorize(action: int, one: str | None, two: str | None, *_: str | None) -> int:
        is_bad = action == sqlite.SQLITE_FUNCTION and (two or "").lower() in _REFUSED_FUNCTIONS
        if action in allowed and not is_bad:
            return int(sqlite.SQLITE_OK)
        refused.append(str(two) if is_bad else names.get(action, f"action {action}"))
        return int(sqlite.SQLITE_DENY)

    return authorize


def _postgres(connection: sa.Connection, query: str, rows: int, seconds: float) -> Answer:
    psycopg: Any = connection.dialect.loaded_dbapi
    driver: Any = connection.connection.driver_connection
    driver.rollback()
    driver.read_only = True
    try:
        with driver.cursor() as cursor:
            cursor.execute(f"SET LOCAL statement_timeout = {int(seconds * 1000)}")
            # As a cursor it is a query that gives rows; prepared, it is one statement: no COPY, SET or COMMIT.
            cursor.execute(f"DECLARE asked NO SCROLL CURSOR FOR {query}", prepare=True)
            cursor.execute(f"FETCH {rows + 1} FROM asked")
            return _answer(cursor, rows)
    except psycopg.Error as error:
        reason = str(error).splitlines()[0]
        raise RefusedQueryError(f"refused or failed: {reason}") from None
    finally:
        driver.rollback()
        driver.read_only = False


def _answer(cursor: Any, rows: int) -> Answer:
    if cursor.description is None:
        raise RefusedQueryError("the query gives no rows; only SELECT is answered")
    columns = [column[0] for column in cursor.description]
    names = [f"{n}_{i}" if n in columns[:i] else n for i, n in enumerate(columns)]
    found = cursor.fetchmany(rows + 1)
    return Answer(
        names, [[_plain(value) for value in row] for row in found[:rows]], len(found) > rows
    )


def _plain(value: Any) -> Any:
    """A value that every format can hold: bytes as hexadecimal, decimals as numbers where they are whole."""
    if isinstance(value, bytes | memoryview):
        return bytes(value).hex()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    try:
        return int(value) if value == int(value) else float(value)
    except (TypeError, ValueError, OverflowError):
        return str(value)
