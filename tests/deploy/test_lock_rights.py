"""Locks of the writer on PostgreSQL: a role that only reads can neither take them nor keep the writer from them."""

import hashlib
import threading
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
import sqlalchemy as sa

from bus.errors import LedgerError
from deploy.errors import LedgerBusyError, SettingsError
from deploy.queries.sql import ask
from deploy.runtime.locking import ACTING, LEDGER, _session_lock, writer_lock
from deploy.settings.load import load
from migrations.schema import LOCK, upgrade
from projections.engine.session_locks import make_lockable
from projections.engine.store import engine

pytestmark = pytest.mark.postgres
#: The views of all locks.
VIEWS = ("bursar_ledger_lock", "bursar_acting_lock", LOCK)


@pytest.fixture
def ledger(postgres_url):
    """A ledger's engine."""
    made = engine(postgres_url)
    upgrade(made)
    yield made
    made.dispose()


@pytest.fixture
def roles(ledger):
    """The address of a role by its name: one reads, one writes."""
    database = ledger.url.database
    address = ledger.url.set(drivername="postgresql").render_as_string(hide_password=False)
    names = {right: f"{right}_{database}" for right in ("reader", "writer")}
    with psycopg.connect(address, autocommit=True) as owner:
        for right, name in names.items():
            owner.execute(f"CREATE ROLE {name} LOGIN")
            rights = "SELECT" if right == "reader" else "ALL"
            owner.execute(f"GRANT {rights} ON ALL TABLES IN SCHEMA public TO {name}")
            owner.execute(
                f"ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT {rights} ON TABLES TO {name}"
            )
    yield {right: address.replace("//postgres:@", f"//{name}@") for right, name in names.items()}
    with psycopg.connect(address, autocommit=True) as owner:
        for name in names.values():
            owner.execute(f"DROP OWNED BY {name}")
            owner.execute(f"DROP ROLE {name}")


ATTACKS = (
    "LOCK TABLE {} IN ROW SHARE MODE",
    "LOCK TABLE {} IN ROW EXCLUSIVE MODE",
    "LOCK TABLE {} IN SHARE UPDATE EXCLUSIVE MODE",
    "LOCK TABLE {} IN EXCLUSIVE MODE NOWAIT",
    "LOCK TABLE {} IN ACCESS EXCLUSIVE MODE",
    "SELECT * FROM {} FOR UPDATE",
    "SELECT * FROM {} FOR KEY SHARE",
    "CREATE OR REPLACE VIEW {} AS SELECT 2 AS lockable",
    "ALTER VIEW {} SET (security_barrier)",
    "DROP VIEW {}",
    "COMMENT ON VIEW {} IS 'mine'",
)


@pytest.fixture
def views(ledger):
    """The views of all locks, made as the first writer makes them."""
    for part in (LEDGER, ACTING):
        with writer_lock(str(ledger.url), ledger, "up", part):
            pass
    return VIEWS


def test_a_reader_keeps_the_writer_from_nothing(ledger, views, roles):
    url = str(ledger.url)
    with psycopg.connect(roles["reader"], autocommit=True) as reader:
        # All locks that programs before took, in each way that a session has.
        for part in (LEDGER, ACTING):
            reader.execute("SELECT pg_advisory_lock(%s)", (_key(part),))
        reader.execute("BEGIN")
        for view in views:
            reader.execute(f"LOCK TABLE {view} IN ACCESS SHARE MODE")
            reader.execute(f"SELECT * FROM {view}")

        for part in (LEDGER, ACTING):
            with writer_lock(url, ledger, "up", part):
                pass
        with ledger.begin() as connection:
            connection.exec_driver_sql(f"LOCK TABLE {LOCK} IN EXCLUSIVE MODE NOWAIT")


def test_a_reader_takes_no_lock_that_the_writer_needs(views, roles):
    with psycopg.connect(roles["reader"], autocommit=True) as reader:
        for view in views:
            for attack in ATTACKS:
                reader.execute("BEGIN")
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    reader.execute(attack.format(view))
                reader.execute("ROLLBACK")


def test_refused_statements_of_a_reader_keep_the_writer_from_nothing(ledger, views, roles):
    """PostgreSQL takes the lock of a comment before it refuses it."""
    ends = threading.Event()

    def comment():
        with psycopg.connect(roles["reader"], autocommit=True) as reader:
            while not ends.is_set():
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    reader.execute(f"COMMENT ON VIEW {views[0]} IS 'mine'")

    with ThreadPoolExecutor() as pool:
        try:
            commenting = [pool.submit(comment) for _ in range(3)]
            for _ in range(20):
                with writer_lock(str(ledger.url), ledger, "up"):
                    pass
        finally:
            ends.set()
        assert [one.result() for one in commenting] == [None] * 3


def test_a_lock_holds_up_no_vacuum_and_outlasts_limits_of_the_database(ledger):
    url = str(ledger.url)
    address = ledger.url.set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(address, autocommit=True) as owner:
        database = ledger.url.database
        owner.execute(f"ALTER DATABASE {database} SET idle_in_transaction_session_timeout = '50ms'")
        owner.execute(
            f"ALTER DATABASE {database} SET default_transaction_isolation = 'repeatable read'"
        )
        with _session_lock(ledger, url, LEDGER) as look:
            look()
            found = owner.execute(
                "SELECT a.state, a.backend_xid, a.backend_xmin FROM pg_locks AS l JOIN pg_stat_activity AS a USING (pid)"
                " WHERE l.relation = 'bursar_ledger_lock'::regclass AND l.mode = 'ExclusiveLock' AND l.granted"
            ).fetchall()
            assert found == [("idle in transaction", None, None)]
            owner.execute("VACUUM")
            owner.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO CURRENT_USER")
            owner.execute("SELECT pg_sleep(0.2)")
            look()


def test_programs_before_and_after_take_turns(ledger, roles):
    """An upgrade replaces processes one by one: the older ones know the advisory lock alone."""
    url = str(ledger.url)
    with psycopg.connect(roles["writer"], autocommit=True) as older:
        older.execute("SELECT pg_advisory_lock(%s)", (_key(LEDGER),))
        with pytest.raises(LedgerBusyError), writer_lock(url, ledger, "up"):
            pass
        older.execute("SELECT pg_advisory_unlock_all()")
        with writer_lock(url, ledger, "up"):
            assert older.execute("SELECT pg_try_advisory_lock(%s)", (_key(LEDGER),)).fetchone() == (False,)  # fmt: skip
        assert older.execute("SELECT pg_try_advisory_lock(%s)", (_key(LEDGER),)).fetchone() == (True,)  # fmt: skip


def test_two_make_the_view_of_a_lock_at_once(postgres_url):
    """The one that comes second finds it made."""
    made, number = engine(postgres_url), 4
    begins = threading.Barrier(number)

    def make():
        with made.connect() as connection:
            begins.wait(10)
            make_lockable(connection, VIEWS[0])

    with ThreadPoolExecutor(number) as pool:
        assert [one.result() for one in [pool.submit(make) for _ in range(number)]] == [
            None
        ] * number
    made.dispose()


def test_a_role_without_the_right_is_told_the_way(ledger, views, roles):
    made = sa.create_engine(roles["reader"].replace("postgresql:", "postgresql+psycopg:"))
    with pytest.raises(LedgerError, match=f"GRANT UPDATE ON {views[0]}"):
        with writer_lock(str(made.url), made, "up"):
            pass
    made.dispose()


@pytest.mark.parametrize(
    "query",
    [
        "SELECT pg_advisory_lock(1)",
        'SELECT "pg_try_advisory_lock"(1)',
        "SELECT PG_Advisory_Lock_Shared(1) FROM generate_series(1, 3)",
        "SELECT pg_advisory_xact_lock(1)",
        'SELECT U&"pg\\005fadvisory_xact_lock"(1)',
        "SELECT query_to_xml('SELECT pg_adv' || 'isory_lock(1)', true, true, '')",
        "SELECT * FROM ts_stat('SELECT ''''::tsvector FROM pg_try_adv' || 'isory_lock(1)')",
    ],
)
def test_sql_takes_no_advisory_lock(roles, query):
    with pytest.raises(SettingsError, match="refused"):
        ask(load({"ledger": {"url": roles["reader"]}}), query)


def _key(part):
    return int.from_bytes(
        hashlib.sha256(f"bursar {part}".encode()).digest()[:8], "big", signed=True
    )
