"""Queries that mean harm: no time, memory or file beyond what was given, and Ctrl-C ends each at once."""

import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import psycopg
import pytest

from deploy.errors import ConfinedError, SettingsError
from deploy.queries.sql import ask
from deploy.runtime.confined import Limits, confined
from deploy.settings.load import load
from migrations.schema import upgrade
from projections.engine.store import engine
from tests.deploy.ledgers import make_ledger

pytestmark = pytest.mark.long

#: One step of the engine, and as good as endless: no handler is asked in between.
LIKE = "SELECT hex(zeroblob(8000000)) LIKE '%' || hex(zeroblob(20000)) || '1'"
GLOB = "SELECT hex(zeroblob(8000000)) GLOB '*' || hex(zeroblob(20000)) || '1'"
MANY = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 100000000) "


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    return load({"data": make_ledger(tmp_path_factory.mktemp("ledger"))})


@pytest.mark.parametrize(
    ("query", "words"),
    [
        (LIKE, "stopped after 0.5 s"),
        (GLOB, "stopped after 0.5 s"),
        (MANY + "SELECT count(*) FROM n", "stopped after 0.5 s"),
        (MANY + "SELECT hex(randomblob(1000000)) AS x FROM n ORDER BY x", "stopped|memory"),
        ("SELECT zeroblob(4000000000)", "too big"),
        (MANY + "SELECT group_concat(hex(zeroblob(1000000))) FROM n", "too big|stopped|memory"),
    ],
)
def test_a_query_ends_at_its_deadline_whatever_it_calls(settings, query, words):
    """A LIKE ran 617 s against a limit of 5 s. The class: one function, one sort, one value, many rows."""
    begun = time.monotonic()
    with pytest.raises(SettingsError, match=words):
        ask(settings, query, seconds=0.5)

    assert time.monotonic() - begun < 5


def test_a_large_answer_is_cut_and_takes_no_memory_here(settings):
    """4 GB of zeroblobs came into one process."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    answer = ask(settings, MANY + "SELECT zeroblob(4000000) FROM n", seconds=20)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before

    assert (answer.is_cut, answer.is_large, len(answer.rows)) == (True, True, 8)
    assert grown < 400 * 1024


def test_memory_and_size_of_a_child_are_limited():
    limits = Limits(5, memory_bytes=64 * 2**20, answer_bytes=1000)
    # Servers of other tests among them.
    before = set(children(os.getpid()))

    assert confined(lambda: b"x" * 1000, limits) == b"x" * 1000
    for work, reason in (
        (lambda: bytes(256 * 2**20), "memory"),
        (lambda: b"x" * 1001, "size"),
        (lambda: time.sleep(60), "time"),
    ):
        begun = time.monotonic()
        with pytest.raises(ConfinedError, match=f"reason='{reason}'"):
            confined(work, Limits(0.3, limits.memory_bytes, 1000))
        assert time.monotonic() - begun < 3
    assert set(children(os.getpid())) <= before


def started(settings, query, *options):
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("BURSAR_", "KUBE"))}
    return subprocess.Popen(
        [Path(sys.executable).with_name("bursar"), "sql", query, "--data", settings.data, *options],
        env=clean, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def children(pid):
    return [int(c) for c in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def asking(settings):
    """A process that asks without end, and the child that it asks in."""
    process = started(settings, LIKE, "--timeout", "60")
    while not (found := children(process.pid)):
        assert process.poll() is None
        time.sleep(0.01)
    time.sleep(0.3)
    return process, found[0]


def test_ctrl_c_ends_a_query_at_once(settings):
    process, child = asking(settings)
    begun = time.monotonic()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=10)

    assert (process.returncode, time.monotonic() - begun < 3) == (130, True)
    assert not Path(f"/proc/{child}").exists()


def test_a_query_whose_asker_was_killed_ends_at_its_deadline(settings):
    process = started(settings, LIKE, "--timeout", "1")
    while not (found := children(process.pid)):
        time.sleep(0.01)
    process.kill()
    process.communicate()
    deadline = time.monotonic() + 10
    while Path(f"/proc/{found[0]}").exists() and time.monotonic() < deadline:
        time.sleep(0.05)

    assert not Path(f"/proc/{found[0]}").exists()


@pytest.fixture
def postgres(postgres_url):
    """A ledger on PostgreSQL, and the settings of each role that asks it."""
    made = engine(postgres_url)
    upgrade(made)
    made.dispose()
    address = postgres_url.replace("postgresql+psycopg:", "postgresql:")
    # Roles belong to the server, which tests of other processes use at the same time.
    database = made.url.database
    roles = {name: f"{name}_{database}" for name in ("reader", "changer", "filer")}
    with psycopg.connect(address, autocommit=True) as connection:
        for role in roles.values():
            connection.execute(f"CREATE ROLE {role} LOGIN")
            connection.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}")
        connection.execute(f"GRANT UPDATE (reason) ON parked TO {roles['changer']}")
        connection.execute(f"GRANT pg_read_server_files TO {roles['filer']}")

    def settings_of(role):
        url = address.replace("//postgres:@", f"//{roles[role]}@") if role else address
        return load({"ledger": {"url": url}})

    yield settings_of
    with psycopg.connect(address, autocommit=True) as connection:
        for role in roles.values():
            connection.execute(f"DROP OWNED BY {role}")
            connection.execute(f"DROP ROLE {role}")


@pytest.mark.postgres
@pytest.mark.parametrize(
    ("role", "words"),
    [("", "is a superuser"), ("changer", "may change tables"), ("filer", "reaches files")],
)
def test_postgresql_is_asked_by_no_role_that_may_do_more_than_read(postgres, role, words):
    with pytest.raises(SettingsError, match=words):
        ask(postgres(role), "SELECT 1")


@pytest.mark.postgres
def test_a_reader_on_postgresql_is_answered_and_limited(postgres):
    place = postgres("reader")

    assert ask(place, "SELECT count(*) AS n FROM events").rows == [[0]]
    assert ask(place, "SELECT i FROM generate_series(1, 1200) AS i", rows=1100).is_cut
    large = ask(place, "SELECT repeat('x', 4000000) FROM generate_series(1, 100)", seconds=30)
    assert large.is_large and len(large.rows) < 20
    for query in (
        "DELETE FROM parked",
        "SELECT pg_read_file('/etc/passwd')",
        "COPY events TO STDOUT",
    ):
        with pytest.raises(SettingsError, match="refused"):
            ask(place, query)
    begun = time.monotonic()
    with pytest.raises(SettingsError, match=r"timeout|stopped"):
        ask(place, "SELECT pg_sleep(60)", seconds=0.5)
    with pytest.raises(SettingsError, match=r"stopped|memory|refused"):
        ask(place, "SELECT repeat('x', 1000000000)", seconds=5)
    assert time.monotonic() - begun < 15
