"""A bus of one's own behind TLS: nothing is sent to a server that is not the one that is meant."""

import asyncio
import time

import pytest

from bus.errors import BusTlsError, BusUnavailableError
from bus.jetstream import JetStream, Tls
from bus.streams import history
from tests.bus.authority import Authority
from tests.bus.kube.observations import said
from tests.bus.tls_server import LOGIN, Server, connected, ours


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path / "certificates")


@pytest.fixture
def server(tmp_path, authority):
    made = Server(tmp_path, authority)
    made.start()
    yield made
    made.stop()


@pytest.mark.nats
async def test_who_shows_its_certificate_writes_and_reads(server, authority):
    door = await connected(server.url, ours(authority))
    try:
        # As much as is written in one piece.
        sequences = await door.publish([said(n) for n in range(1500)])
        read = [e.id async for part in door.read(after=0, live=False) for e in part]
    finally:
        await door.close()

    assert sequences == list(range(1, 1501))
    assert read == [said(n).id for n in range(1500)]


@pytest.mark.nats
async def test_who_shows_none_is_not_let_in(server, authority):
    await (await connected(server.url, ours(authority))).close()
    with pytest.raises((BusTlsError, BusUnavailableError)):
        await JetStream.connect(
            server.url, history(), credentials=LOGIN, tls=Tls(authority.file), connect_seconds=2
        )


@pytest.mark.nats
async def test_a_server_that_another_authority_signed_is_told_nothing(server, authority, tmp_path):
    await (await connected(server.url, ours(authority))).close()
    other = Authority(tmp_path / "other")
    began = time.monotonic()
    with pytest.raises(BusTlsError, match="certificate verify failed"):
        await JetStream.connect(server.url, history(), credentials=LOGIN, tls=ours(other))
    assert time.monotonic() - began < 5


@pytest.mark.nats
async def test_a_server_by_a_name_that_its_certificate_lacks_is_told_nothing(server, authority):
    await (await connected(server.url, ours(authority))).close()
    with pytest.raises(BusTlsError, match="localhost"):
        await JetStream.connect(
            f"tls://localhost:{server.port}", history(), credentials=LOGIN, tls=ours(authority)
        )


@pytest.mark.parametrize(
    "offer", [b"", b',"tls_required":false', b',"tls_available":true', b',"tls_required":1']
)
async def test_a_server_that_offers_no_tls_is_told_nothing(offer, authority):
    """Nor does who stands between: nats-py would send the password, and go on unencrypted."""
    heard = asyncio.Queue()

    async def taken(reader, writer):
        head = b'INFO {"server_id":"a","version":"2.15.1","auth_required":true,"headers":true'
        writer.write(head + b',"max_payload":1048576%b}\r\n' % offer)
        said = await reader.read(4096)
        writer.close()
        # The loop ends when it was heard, and an end that is still to come would be left behind.
        await writer.wait_closed()
        heard.put_nowait(said)

    listening = await asyncio.start_server(taken, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    with pytest.raises(BusTlsError, match="offers no TLS"):
        await JetStream.connect(
            f"nats://127.0.0.1:{port}", history(), credentials=LOGIN, tls=ours(authority)
        )
    async with asyncio.timeout(5):
        told = await heard.get()
    listening.close()

    assert (told, heard.qsize()) == (b"", 0)


@pytest.mark.nats
async def test_servers_that_are_named_before_the_handshake_are_not_asked(server, authority):
    """Whoever is between may add one, pass on the rest, and cut the line: its certificate would be held against its own name."""
    await (await connected(server.url, ours(authority))).close()

    async def between(reader, writer):
        theirs, to_server = await asyncio.open_connection("127.0.0.1", server.port)
        greeting = await theirs.readline()
        writer.write(
            greeting.replace(b"INFO {", b'INFO {"connect_urls":["other.example.org:4222"],', 1)
        )
        await asyncio.gather(piped(reader, to_server), piped(theirs, writer))

    listening = await asyncio.start_server(between, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    door = await connected(f"nats://127.0.0.1:{port}", ours(authority))
    known = {one.uri.hostname for one in door._connection._client._server_pool}
    await door.close()
    listening.close()

    assert known == {"127.0.0.1"}


async def piped(reader, writer):
    while data := await reader.read(65_536):
        writer.write(data)
    writer.close()


@pytest.mark.nats
async def test_a_silent_server_is_left_within_seconds(server, authority):
    """An end in order is waited for by nobody: TLS would wait 30 s for it."""
    door = await connected(server.url, ours(authority))
    lost = asyncio.Event()
    door._connection.on_lost.add(lost.set)
    server.freeze()
    try:
        # Two pings of two seconds, and the third that finds them unanswered.
        async with asyncio.timeout(20):
            await lost.wait()
    finally:
        server.thaw()
        await door.close()


@pytest.mark.nats
async def test_odd_greetings_end_no_reconnecting(server, authority):
    """Whoever answers one connection in the server's place says what he likes."""
    door = await connected(server.url, ours(authority))
    server.stop()
    odd = [
        b"INFO []\r\n",
        b"INFO\r\n",
        b"INFO " + b"x" * 70_000 + b"\r\n",
        b'INFO {"connect_urls":["[::1"]}\r\n',
        b"\r\n",
    ]
    heard = asyncio.Event()

    async def answered(reader, writer):
        if odd:
            writer.write(odd.pop())
        else:
            heard.set()
        writer.close()

    listening = await asyncio.start_server(answered, "127.0.0.1", server.port)
    try:
        async with asyncio.timeout(30):
            await heard.wait()
        listening.close()
        await listening.wait_closed()
        server.start()
        async with asyncio.timeout(30):
            assert await door.publish([said(1)]) == [1]
    finally:
        await door.close()


@pytest.mark.nats
async def test_certificates_that_are_renewed_while_it_runs_are_used(server, authority, tmp_path):
    """As cert-manager does it: other files under the same names, an other authority too."""
    tls = ours(authority)
    door = await connected(server.url, tls)
    try:
        await door.publish([said(1)])
        server.stop()
        renewed = Authority(tmp_path / "certificates", "renewed")
        renewed.signed("bursar")
        server.signed_by(renewed)
        server.start()
        async with asyncio.timeout(30):
            while True:
                try:
                    assert await door.publish([said(2)]) == [2]
                    break
                except BusUnavailableError:
                    await asyncio.sleep(0.1)
    finally:
        await door.close()


def test_a_file_that_is_not_there_is_named(tmp_path, authority):
    cert, key = authority.signed("bursar")
    (tmp_path / "empty").write_text("")
    for tls, name in (
        (Tls(tmp_path / "no-ca.crt"), "no-ca.crt"),
        (Tls(tmp_path / "empty"), "empty"),
        (Tls(authority.file, tmp_path / "no.crt", key), "no.crt"),
        (Tls(authority.file, cert, tmp_path / "no.key"), "no.key"),
        (Tls(authority.file, cert, authority.signed("another")[1]), "another.key"),
    ):
        with pytest.raises(BusTlsError, match=name):
            tls.context()
