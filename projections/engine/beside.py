"""A place beside a live ledger for rows built from its archive.

On SQLite it is a database file beside the ledger's (``….replay``, ``….fill``), on PostgreSQL a schema
(``bursar_replay``, ``bursar_fill``) before the live one in the search path. The archive is not rebuilt and is found
behind it: SQLite looks in an attached database for missing tables, PostgreSQL in the next schema. So the same
folds, the same store and the same statements fill it, and no event is copied.

A ``kept`` place survives the process: every transaction in it is whole, and the next process goes on from its
checkpoint. PostgreSQL's tables are unlogged: a start over.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from bus.errors import LedgerError
from projections.engine.model import Model
from projections.engine.store import IN_MEMORY, Store, engine, readable_uri
from projections.engine.tables import checkpoints, parked


def over(path: Path, live: sa.Engine | None, *, is_kept: bool = False) -> sa.Engine:
    """An engine with the SQLite database ``path`` for writing, and behind it the tables of ``live``, another one."""
    url = sa.URL.create("sqlite", database=str(path), query={"uri": "true"})
    made = engine(url.render_as_string())

    @sa.event.listens_for(made, "connect")
    def attach(connection: Any, _: Any) -> None:
        if not is_kept:
            # An interrupted build after a power cut starts over: no need to write each page twice, or to wait.
            connection.execute("PRAGMA main.journal_mode = MEMORY")
            connection.execute("PRAGMA synchronous = OFF")
        connection.execute("PRAGMA cache_size = -128000")
        if live is not None:
            archive = readable_uri(made.dialect.loaded_dbapi, Path(str(live.url.database)))
            connection.execute("ATTACH DATABASE ? AS live", (archive,))

    return made


class Beside:
    """The place ``name`` beside ``live``. ``is_kept``: an existing build is continued."""

    def __init__(self, live: Store, name: str, *, is_kept: bool = False) -> None:
        self._live = live
        self._name = name
        self._is_kept = is_kept
        self._is_sqlite = live.engine.dialect.name == "sqlite"

    @property
    def schema(self) -> str:
        """The name of the place in PostgreSQL, and of its database in a connection of SQLite's."""
        return f"bursar_{self._name}"

    def made(self, model: Model) -> Store:
        """A store there with the live archive behind it: an empty one, or the kept one."""
        built = (*model.tables, parked, checkpoints)
        if not self._is_kept:
            self.discard()
        if self._is_sqlite:
            made = self._sqlite()
            checkpoints.metadata.create_all(made, tables=built)
        else:
            made = self._postgres(built)
        return Store(made, archive=False)

    def discard(self) -> None:
        """Delete the place, if it exists."""
        if self._is_sqlite:
            path = self._path()
            for suffix in ("", "-wal", "-shm", "-journal"):
                path.with_name(path.name + suffix).unlink(missing_ok=True)
        else:
            with self._live.engine.begin() as connection:
                connection.exec_driver_sql(f"DROP SCHEMA IF EXISTS {self.schema} CASCADE")

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """A transaction on the live ledger with its write lock, and with this place as :attr:`schema`."""
        if not self._is_sqlite:
            with self._live.engine.begin() as connection:
                connection.exec_driver_sql("LOCK TABLE checkpoints IN SHARE ROW EXCLUSIVE MODE")
                yield connection
            return
        with self._live.engine.connect() as connection:
            driver: Any = connection.connection.driver_connection
            driver.execute(f"ATTACH DATABASE ? AS {self.schema}", (str(self._path()),))
            try:
                with connection.begin():
                    yield connection
            finally:
                driver.execute(f"DETACH DATABASE {self.schema}")

    def put(self, connection: sa.Connection, tables: Sequence[sa.Table]) -> None:
        """Put the rows of these tables in the place of the live ones, in a transaction of :meth:`writing`."""
        for table in tables:
            names = ", ".join(table.columns.keys())
            connection.exec_driver_sql(f"DELETE FROM {table.name}")
            connection.exec_driver_sql(
                f"INSERT INTO {table.name} ({names}) SELECT {names} FROM {self.schema}.{table.name}"
            )

    def add(self, connection: sa.Connection, table: sa.Table) -> None:
        """Add the rows missing in the live table, in a transaction of :meth:`writing`."""
        names, key = ", ".join(table.columns.keys()), table.primary_key.columns.keys()[0]
        connection.exec_driver_sql(
            f"INSERT INTO {table.name} ({names}) SELECT {names} FROM {self.schema}.{table.name}"
            f" WHERE {key} NOT IN (SELECT {key} FROM {table.name})"
        )

    def _path(self) -> Path:
        name = self._live.engine.url.database
        if name in IN_MEMORY:
            raise LedgerError("a ledger in memory has no place beside it for a replay")
        return Path(f"{name}.{self._name}")

    def _sqlite(self) -> sa.Engine:
        return over(self._path(), self._live.engine, is_kept=self._is_kept)

    def _postgres(self, built: Sequence[sa.Table]) -> sa.Engine:
        with self._live.engine.begin() as connection:
            home = connection.exec_driver_sql("SELECT current_schema()").scalar()
            connection.exec_driver_sql(f"CREATE SCHEMA IF NOT EXISTS {self.schema}")
            for table in built:
                connection.exec_driver_sql(
                    f"CREATE UNLOGGED TABLE IF NOT EXISTS {self.schema}.{table.name}"
                    f" (LIKE {home}.{table.name} INCLUDING ALL)"
                )
        url = self._live.engine.url
        given = url.query.get("options", "")
        options = f"{given} -c search_path={self.schema},{home}".strip()
        made = url.update_query_dict({"options": options})
        return engine(made.render_as_string(hide_password=False))
