"""ADAPTER: brings a ledger's schema to what this program needs, or refuses one that is newer.

All steps that are missing, and the views, are one transaction under one lock: a crash leaves the schema as it was, and of
two processes that start together the second waits and finds nothing to do. On SQLite the lock is the write lock
of the database file (BEGIN IMMEDIATE), on PostgreSQL one that only a writing role can take and that ends with the transaction.

**Back by one version.** A step of which older programs need not know, since it only adds (tables, indexes, columns that may be
NULL or have a default), says so in its name: ``0023_from_0021`` is a schema with which programs of 0021 go on, and leave as it
is, views included. They fill what they fold by other rules from the archive, as an upgrade does. A name without it, of a step that
drops or renames what the version before reads or writes, is refused by all older programs: such a step comes one version
after the one that no longer needs it (expand, then contract). The ledger itself has to say it, as an older program does not
have the step.

The steps are package files, so an installed program needs no configuration file. Tables are dropped and filled again
by replay, views keep their meaning: when steps are taken the views are made anew, else a view whose text is the same is
left alone. Reading rights on views are therefore best given by ALTER DEFAULT PRIVILEGES.

Source: docs/wrong-input.md.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from bus.crashpoints import crashpoint
from bus.errors import LedgerError, LedgerNewerError
from migrations import floor_of, number_of
from projections.engine.session_locks import lock, make_lockable
from projections.engine.store import WAIT_SECONDS, looking
from projections.views import VIEWS, View

#: The view of PostgreSQL whose lock it is.
LOCK = "bursar_schema_lock"

#: PostgreSQL's code for a view that is replaced by one with a column less, or of another type.
_OTHER_COLUMNS = "42P16"

#: How long a second process waits for the first one's steps.
MIGRATION_SECONDS = 120


def head() -> str:
    """The newest revision this program knows."""
    newest = ScriptDirectory.from_config(_config()).get_current_head()
    assert newest is not None
    return newest


def upgrade(engine: sa.Engine) -> str:
    """Take the steps that are missing, make the views, and return the revision. Does nothing where all is there.

    Changes nothing of a newer schema, and raises LedgerNewerError where that is none for this program. ``engine`` is one made
    by :func:`projections.engine.store.engine`, not read-only.
    """
    with looking(engine) as connection:
        # Beside a writer, which the lock would hold up while the steps are looked through.
        found = _revision(connection)
        if _is_newer(found) or (found == head() and not _different(connection)):
            return str(found)
    with engine.connect() as connection:
        _wait_for_lock(connection)
        if connection.dialect.name == "postgresql":
            make_lockable(connection, LOCK)
        with connection.begin():
            if connection.dialect.name == "postgresql":
                if not lock(connection, LOCK, seconds=MIGRATION_SECONDS):
                    raise LedgerError("another process changes the schema of this ledger")
            found = _revision(connection)
            if _is_newer(found):
                return str(found)
            crashpoint("migrate.before_upgrade")
            if found != head():
                _drop_views(connection)
                command.upgrade(_config(connection), "head")
            _make_views(connection)
            crashpoint("migrate.after_upgrade")
        _wait_for_lock(connection, seconds=WAIT_SECONDS)
    return head()


def _config(connection: sa.Connection | None = None) -> Config:
    config = Config()
    # A per cent sign would begin an interpolation of the configuration language.
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    if connection is not None:
        config.attributes["connection"] = connection
    return config


def _wait_for_lock(connection: sa.Connection, seconds: int = MIGRATION_SECONDS) -> None:
    if connection.dialect.name == "sqlite":
        driver = connection.connection.driver_connection
        assert driver is not None
        driver.execute(f"PRAGMA busy_timeout = {seconds * 1000}")


def _revision(connection: sa.Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


def _is_newer(found: str | None) -> bool:
    """Whether the schema is newer than this program, which may go on with it. Raises LedgerNewerError where it may not."""
    known = {step.revision for step in ScriptDirectory.from_config(_config()).walk_revisions()}
    if found is None or found in known:
        return False
    if floor_of(found) not in {number_of(revision) for revision in known}:
        raise LedgerNewerError(ledger=found, program=head())
    return True


def _drop_views(connection: sa.Connection) -> None:
    for view in reversed(VIEWS):
        connection.exec_driver_sql(f"DROP VIEW IF EXISTS {view.name}")


def _make_views(connection: sa.Connection) -> None:
    different = _different(connection)
    if connection.dialect.name == "sqlite":
        if different:
            _drop_views(connection)
            for view in VIEWS:
                connection.exec_driver_sql(view.created("sqlite"))
        return
    try:
        with connection.begin_nested():
            _replace(connection, different)
    except sa.exc.DBAPIError as error:
        if getattr(error.orig, "sqlstate", "") != _OTHER_COLUMNS:
            raise
        # A newer program's view may have a column more, which can only be dropped with the view.
        _drop_views(connection)
        _replace(connection, VIEWS)


def _replace(connection: sa.Connection, views: Sequence[View]) -> None:
    for view in views:
        text = view.created("postgresql")
        connection.exec_driver_sql(
            text.replace("CREATE", "CREATE OR REPLACE", 1).replace("%", "%%"), ()
        )
        connection.exec_driver_sql(f"COMMENT ON VIEW {view.name} IS '{_digest(text)}'")


def _different(connection: sa.Connection) -> list[View]:
    """The views that are missing, or are not those of this program."""
    if connection.dialect.name == "sqlite":
        query = "SELECT name, sql FROM sqlite_master WHERE type = 'view'"
        stored = {name: text for name, text in connection.exec_driver_sql(query)}
        return [view for view in VIEWS if stored.get(view.name) != view.created("sqlite")]
    # PostgreSQL keeps no text of its own, and a replaced view keeps the rights given on it.
    query = "SELECT obj_description(to_regclass(%s), 'pg_class')"
    return [
        view
        for view in VIEWS
        if connection.exec_driver_sql(query, (view.name,)).scalar()
        != _digest(view.created("postgresql"))
    ]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
