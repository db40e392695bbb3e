"""A ledger on a PostgreSQL elsewhere: libpq's own TLS in front of a real server, what it refuses, and what `bursar status` says.

The PostgreSQL of the tests speaks no TLS itself, so a door in front of it does: it answers libpq's request for TLS as a server
does, and passes what is inside on.
"""

import asyncio
import contextlib
import json
import re
import ssl
import struct
import threading
from urllib.parse import parse_qs, urlsplit

import pytest

from deploy.runtime.ledgers import ledger
from deploy.settings import addresses
from deploy.settings.addresses import unverified
from deploy.settings.load import load
from tests.bus.authority import Authority
from tests.deploy.ledgers import bursar

#: What libpq sends first where it wants TLS: a length of 8 and this number.
ASKS_FOR_TLS = struct.pack("!II", 8, 80_877_103)


class Door:
    """TLS before a PostgreSQL; ``passed`` counts connections that got through. Without ``context`` it offers none."""

    def __init__(self, socket_path, context=None):
        self._path, self._context = socket_path, context
        self.passed, self.port = 0, 0
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))

    def __enter__(self):
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, *_):
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(10)

    async def _run(self):
        self._loop, self._end, self._inside = asyncio.get_running_loop(), asyncio.Event(), set()
        server = await asyncio.start_server(self._let_in, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._end.wait()
        server.close()
        for writer in self._inside:
            writer.transport.abort()
        await asyncio.sleep(0)

    async def _let_in(self, reader, writer):
        self._inside.add(writer)
        with contextlib.suppress(OSError, EOFError, asyncio.CancelledError):
            assert await reader.readexactly(8) == ASKS_FOR_TLS
            writer.write(b"S" if self._context else b"N")
            await writer.drain()
            if self._context:
                await writer.start_tls(self._context)
            first = await reader.readexactly(1)
            self.passed += 1
            there, back = await asyncio.open_unix_connection(self._path)
            self._inside.add(back)
            back.write(first)
            await asyncio.gather(_carried(reader, back), _carried(there, writer))
        writer.transport.abort()


async def _carried(reader, writer):
    with contextlib.suppress(OSError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    writer.close()


class Site:
    """A database behind a door, and the files of TLS."""

    def __init__(self, folder, postgres_url):
        parts = urlsplit(postgres_url)
        self._base = f"postgresql://{parts.username}:sekret@127.0.0.1"
        self._name = parts.path
        self.folder, self.socket = folder, f"{parse_qs(parts.query)['host'][0]}/.s.PGSQL.5432"
        self.authority = Authority(folder / "tls")
        self.client = self.authority.signed("bursar")
        self.client[1].chmod(0o600)

    def context(self, address="127.0.0.1", *, asks_client=False):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self.authority.signed("postgres", address))
        if asks_client:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(self.authority.file)
        return context

    def url(self, port, **query):
        query = {"sslmode": "verify-full", "sslrootcert": self.authority.file} | query
        return f"{self._base}:{port}{self._name}?" + "&".join(f"{k}={v}" for k, v in query.items())


@pytest.fixture
def site(tmp_path, postgres_url):
    return Site(tmp_path, postgres_url)


@pytest.mark.postgres
def test_a_ledger_behind_tls_is_written_and_read_with_a_certificate_of_both_sides(site, capsys):
    with Door(site.socket, site.context(asks_client=True)) as door:
        url = site.url(door.port, sslcert=site.client[0], sslkey=site.client[1])
        with ledger(load({"data": site.folder, "ledger": {"url": url}})):
            written = door.passed
        code = bursar("report", "--data", site.folder, "--ledger", url, "-o", "json")

    assert code == 0 and json.loads(capsys.readouterr().out)[0]["pods"] == 0
    assert 0 < written < door.passed


@pytest.mark.postgres
@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("another authority signed it", "certificate verify failed"),
        ("it is of another name", "does not match host name"),
        ("no TLS is offered", "server does not support SSL"),
        # Of TLS 1.3 the client's part is over by then: it reads the alert, or that the connection is gone.
        ("the server asks for a certificate", "SSL error|server closed the connection"),
    ],
)
def test_who_does_not_show_that_it_is_the_server_is_told_nothing(site, capsys, how, said):
    address = "127.0.0.9" if "name" in how else "127.0.0.1"
    context = site.context(address, asks_client="asks" in how)
    if "authority" in how:
        Authority(site.folder / "tls", "another")
    with Door(site.socket, None if "no TLS" in how else context) as door:
        code = bursar("report", "--data", site.folder, "--ledger", site.url(door.port))
    err = capsys.readouterr().err

    assert code == 4 and door.passed == 0
    assert re.search(said, err) and "sekret" not in err


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("sqlite:////data/ledger.db", ""),
        ("postgresql+psycopg://bursar@db.example.org/bursar", "db.example.org"),
        ("postgresql+psycopg://bursar@db.example.org/bursar?sslmode=require", "db.example.org"),
        ("postgresql+psycopg://bursar@db.example.org/bursar?sslmode=verify-ca", "db.example.org"),
        ("postgresql+psycopg://bursar@db.example.org/bursar?sslmode=verify-full", ""),
        ("postgresql+psycopg://bursar@10.1.2.3:5432/bursar", "10.1.2.3"),
        ("postgresql+psycopg://bursar@[2001:db8::1]:5432/bursar", "2001:db8::1"),
        ("postgresql+psycopg://bursar@[::1]:5432/bursar", ""),
        ("postgresql+psycopg://bursar@127.0.0.1/bursar", ""),
        ("postgresql+psycopg://bursar@localhost/bursar", ""),
        ("postgresql+psycopg:///bursar", ""),
        ("postgresql+psycopg:///bursar?host=/run/postgresql", ""),
        ("postgresql+psycopg:///bursar?host=/run/postgresql&host=db2.example.org:5432", "db2.example.org:5432"),
        ("postgresql+psycopg:///bursar?host=localhost,db2.example.org", "db2.example.org"),
    ],
)  # fmt: skip
def test_a_server_elsewhere_is_checked_by_verify_full_alone(url, host):
    assert unverified(url) == host


@pytest.mark.parametrize(
    ("given", "host"),
    [
        ({"PGHOST": "db.example.org"}, "db.example.org"),
        ({"PGHOST": "db.example.org", "PGSSLMODE": "verify-full"}, ""),
    ],
)
def test_what_libpq_takes_from_the_environment_counts(monkeypatch, given, host):
    monkeypatch.setattr(addresses, "environment", lambda: given)
    assert unverified("postgresql+psycopg:///bursar") == host


@pytest.mark.postgres
def test_the_status_names_a_server_that_anybody_on_the_way_could_be(site, capsys, monkeypatch):
    monkeypatch.setattr(addresses, "_is_here", lambda host: False)
    with Door(site.socket, site.context()) as door:
        found = {}
        for mode in ("require", "verify-full"):
            url = site.url(door.port, sslmode=mode)
            with ledger(load({"data": site.folder, "ledger": {"url": url}})):
                bursar("status", "--data", site.folder, "--ledger", url)
                found[mode] = capsys.readouterr().out

    assert "who answers for 127.0.0.1 is not checked" in found["require"]
    assert "is not checked" not in found["verify-full"]
