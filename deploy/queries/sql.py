"""Free SQL against the ledger, from untrusted askers: read-only, one statement, limited in time, memory and size.

The query runs in a process of its own (:mod:`deploy.runtime.confined`), since one function of it can take minutes or
gigabytes in a single step. SQLite: an authorizer allows reading tables and plain functions and nothing else. PostgreSQL:
a read-only transaction with a statement time-out, rolled back at the end, by a role with read access only. Any other role
is refused, as it may reach files and programs of the server.

Source: ``docs/operating.md``.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import sqlalchemy as sa

from deploy.errors import ConfinedError, SettingsError
from deploy.runtime.confined import Limits, confined
from deploy.runtime.ledgers import Located, reader

#: Most rows of an answer.
ROWS = 10_000

#: Longest text or blob of a query, bytes; it bounds memory, too.
LONGEST = 16 * 1024 * 1024

#: Actions allowed by SQLite's authorizer, by the driver's names.
_ALLOWED = ("SQLITE_SELECT", "SQLITE_READ", "SQLITE_FUNCTION", "SQLITE_RECURSIVE")
#: Functions to read files or load code.
_REFUSED_FUNCTIONS = {"load_extension", "readfile", "writefile", "edit", "fts3_tokenizer"}


#: Memory of a query, and its largest answer, bytes.
MEMORY = 512 * 1024 * 1024
LARGEST = 64 * 1024 * 1024

#: Rows requested from a server at once, and bytes of text in them.
PART = 500
PART_BYTES = 4 * 1024 * 1024

#: Rights of this session's role beyond reading, by name; empty for a read-only role.
_POWERS = """
SELECT CASE
  WHEN (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN 'is a superuser'
  WHEN EXISTS (
    SELECT 1 FROM pg_roles WHERE rolname IN ('pg_write_all_data', 'pg_execute_server_program',
      'pg_read_server_files', 'pg_write_server_files', 'pg_maintain', 'pg_signal_backend') AND pg_has_role(oid, 'MEMBER')
  ) THEN 'is a member of a role that writes, locks, ends sessions, or reaches files and programs of the server'
  WHEN EXISTS (
    SELECT 1 FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE n.nspname NOT LIKE 'pg\\_%' AND n.nspname <> 'information_schema'
      AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
      AND (has_table_privilege(c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE')
        OR has_any_column_privilege(c.oid, 'INSERT, UPDATE'))
  ) THEN 'may change tables'
END
"""


#: Functions to take locks of the server, and the locks of this session.
_ADVISORY = re.compile(r"pg_\w*advisory", re.IGNORECASE)
_LOCKS = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"


class Answer(msgspec.Struct):
    """Rows of a query; ``is_cut``: there were more. ``is_large``: they were cut for their size."""

    columns: list[str]
    rows: list[list[Any]]
    is_cut: bool = False
    is_large: bool = False


class RefusedQueryError(SettingsError):
    """The query is not one that may be asked here."""


def ask(place: Located, query: str, *, rows: int = ROWS, seconds: float = 5.0) -> Answer:
    """The answer to one query. Raises RefusedQueryError saying why, AbsentLedgerError."""
    # This process reports an unreachable or absent ledger.
    reader(place).dispose()
    try:
        found = json.loads(
            confined(
                lambda: _asked(place, query, rows, seconds),
                Limits(seconds, MEMORY, LARGEST + LONGEST * 8),
            )
        )
    except ConfinedError as error:
        words = {
            "time": f"stopped after {seconds:g} s (--timeout)",
            "memory": f"stopped: it took more than {MEMORY // 2**20} MiB of memory",
            "size": f"stopped: its answer is larger than {LARGEST // 2**20} MiB",
        }
        raise RefusedQueryError(words[error.reason]) from None
    if isinstance(found, str):
        raise RefusedQueryError(found)
    return msgspec.convert(found, Answer)


def _asked(place: Located, query: str, rows: int, seconds: float) -> bytes:
    """The answer, or as a text why there is none, as JSON; in the child."""
    try:
        made = reader(place)
        with made.connect() as connection:
            is_sqlite = made.dialect.name == "sqlite"
            answer = (_sqlite if is_sqlite else _postgres)(connection, query, rows, seconds)
    except MemoryError:
        raise
    except Exception as error:
        return json.dumps(str(error)).encode()
    return answer


def _sqlite(connection: sa.Connection, query: str, rows: int, seconds: float) -> bytes:
    # The driver loaded by the ledger's adapter: only adapters import one.
    sqlite: Any = connection.dialect.loaded_dbapi
    driver: Any = connection.connection.driver_connection
    driver.execute("PRAGMA query_only = 1")
    # Sorting counts as memory: no file is written.
    driver.execute("PRAGMA temp_store = MEMORY")
    driver.setlimit(sqlite.SQLITE_LIMIT_LENGTH, LONGEST)
    driver.setlimit(sqlite.SQLITE_LIMIT_ATTACHED, 0)
    ends = time.monotonic() + seconds
    driver.set_progress_handler(lambda: int(time.monotonic() > ends), 10_000)
    refused: list[str] = []
    driver.set_authorizer(_authorizer(sqlite, refused))
    try:
        cursor = driver.execute(query)
        return _answer(cursor.description, cursor, rows)
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


def _postgres(connection: sa.Connection, query: str, rows: int, seconds: float) -> bytes:
    psycopg: Any = connection.dialect.loaded_dbapi
    driver: Any = connection.connection.driver_connection
    driver.rollback()
    driver.read_only = True
    try:
        with driver.cursor() as cursor:
            _refuse_powers(cursor)
            if found := _ADVISORY.search(query):
                raise RefusedQueryError(f"refused: {found[0]}; only reading is allowed")
            cursor.execute(f"SET LOCAL statement_timeout = {int(seconds * 1000)}")
            # As a cursor it is a query with rows; prepared, it is one statement: no COPY, SET or COMMIT.
            cursor.execute(f"DECLARE asked NO SCROLL CURSOR FOR {query}", prepare=True)
            cursor.execute("FETCH 0 FROM asked")
            answer = _answer(cursor.description, _fetched(cursor), rows)
            # A name may be spelled in escapes, or be in text run by another function.
            if cursor.execute(_LOCKS).fetchone()[0]:
                raise RefusedQueryError("refused: the query takes locks; only reading is allowed")
            return answer
    except psycopg.Error as error:
        reason = str(error).splitlines()[0]
        raise RefusedQueryError(f"refused or failed: {reason}") from None
    finally:
        driver.rollback()
        driver.read_only = False


def _refuse_powers(cursor: Any) -> None:
    power = cursor.execute(_POWERS).fetchone()[0]
    if power:
        user = cursor.execute("SELECT current_user").fetchone()[0]
        raise RefusedQueryError(
            f"the role {user!r} {power}: give --ledger with one that may only read "
            "(docs/operating.md shows how to make it)"
        )


def _fetched(cursor: Any) -> Iterator[tuple[Any, ...]]:
    """The rows of the server's cursor, about 4 MB at a time, so they are never all in memory."""
    count = 4
    while found := cursor.execute(f"FETCH {count} FROM asked").fetchall():
        yield from found
        size = sum(len(value) for row in found for value in row if isinstance(value, str | bytes))
        count = max(1, min(count * 4, PART, PART_BYTES * len(found) // (size + 1)))


def _answer(description: Any, found: Iterator[Any], rows: int) -> bytes:
    """The rows as JSON, until there are enough of them."""
    if description is None:
        raise RefusedQueryError("the query gives no rows; only SELECT is answered")
    columns = [column[0] for column in description]
    names = [f"{n}_{i}" if n in columns[:i] else n for i, n in enumerate(columns)]
    parts: list[str] = []
    size, is_cut, is_large = 0, False, False
    for row in found:
        part = json.dumps([_plain(value) for value in row], ensure_ascii=False)
        size += len(part)
        is_large = size > LARGEST
        is_cut = is_large or len(parts) == rows
        if is_cut:
            break
        parts.append(part)
    flags = f'"is_cut":{json.dumps(is_cut)},"is_large":{json.dumps(is_large)}'
    whole = f'{{"columns":{json.dumps(names)},{flags},"rows":[{",".join(parts)}]}}'
    return whole.encode("utf-8", "surrogatepass")


def _plain(value: Any) -> Any:
    """A value for every format: bytes as hexadecimal, whole decimals as integers."""
    if isinstance(value, bytes | memoryview):
        return bytes(value).hex()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    try:
        return int(value) if value == int(value) else float(value)
    except (TypeError, ValueError, OverflowError):
        return str(value)
