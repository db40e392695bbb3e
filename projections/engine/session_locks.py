"""ADAPTER: PostgreSQL locks reserved for roles with write access to the ledger.

Any role may take an advisory lock, also a read-only one. A table lock above ACCESS SHARE needs the right to write
the table. Each lock is the EXCLUSIVE lock of an empty view. Views have no storage, so autovacuum never waits for
them. LOCK TABLE assigns no transaction id and keeps no snapshot in READ COMMITTED: the transaction may stay open
for months.

Source: PostgreSQL, "Explicit Locking" and "LOCK"; docs/operating.md.
"""

from __future__ import annotations

import sqlalchemy as sa

from bus.errors import LedgerError

#: PostgreSQL's codes: the object exists, or another session made it just now; another session holds the lock; a right is missing.
_EXISTS, _HELD, _FORBIDDEN = ("42P07", "42710", "23505"), "55P03", "42501"
#: Time limits able to end a session with an open transaction. PostgreSQL knows the last one from version 17 on.
_LIMITS = ("idle_in_transaction_session_timeout", "idle_session_timeout", "transaction_timeout")


def make_lockable(connection: sa.Connection, name: str) -> None:
    """Make the view of a lock where it is missing, in a transaction of its own. Raises LedgerError without the right to."""
    try:
        with connection.begin():
            if connection.scalar(sa.select(sa.func.to_regclass(name))) is None:
                connection.exec_driver_sql(f"CREATE VIEW {name} AS SELECT 1 AS lockable")
    except sa.exc.DBAPIError as error:
        if _code(error) not in _EXISTS:
            raise _explained(error, name) from error


def lift_limits(connection: sa.Connection) -> None:
    """Let the session keep a transaction open for as long as its process runs."""
    settings = sa.table("pg_settings", sa.column("name"))
    lifted = sa.select(sa.func.set_config(settings.c.name, "0", False)).select_from(settings)
    with connection.begin():
        connection.execute(lifted.where(settings.c.name.in_(_LIMITS))).all()


def lock(connection: sa.Connection, name: str, *, seconds: float) -> bool:
    """Take a lock until the transaction ends; False where another session holds it for longer than these seconds.

    A moment is left to others: PostgreSQL locks a view for a role's COMMENT before it refuses it. Raises LedgerError without
    the right to.
    """
    try:
        connection.exec_driver_sql(f"SET LOCAL lock_timeout = {int(seconds * 1000)}")
        connection.exec_driver_sql(f"LOCK TABLE {name} IN EXCLUSIVE MODE")
    except sa.exc.DBAPIError as error:
        if _code(error) != _HELD:
            raise _explained(error, name) from error
        return False
    return True


def _code(error: sa.exc.DBAPIError) -> str:
    return str(getattr(error.orig, "sqlstate", ""))


def _explained(error: sa.exc.DBAPIError, name: str) -> Exception:
    if _code(error) != _FORBIDDEN:
        return error
    return LedgerError(
        f"this role may not lock the ledger: `CREATE VIEW {name} AS SELECT 1 AS lockable` and "
        f"`GRANT UPDATE ON {name}` to it, as the owner of the ledger"
    )
