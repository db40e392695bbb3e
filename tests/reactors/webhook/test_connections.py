"""Strangers at the webhook's port: who is let in, how many, for how long, and with how many bytes.

What holds here for one reason holds for its neighbors: every phase of a connection (handshake, headers, body, answer, rest,
close) has a deadline, and every count (connections, files, bytes of headers, bytes of a request) a bound.
"""

import asyncio
import contextlib
import resource
import socket
import ssl

import pytest
import uvloop

from reactors.webhook.gate import ConnectionLimits
from tests.benchmarks.reviews import closed_loop, create
from tests.reactors.webhook.reviews import application, encoded
from tests.reactors.webhook.serving import client_certificate, serving

LOOPS = pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])


async def reviewed(webhook, certificate="", count=4):
    load = closed_loop(webhook.target(certificate), create, connections=count, count=count)
    try:
        async with asyncio.timeout(10):
            return dict((await load).answers)
    except OSError:  # in the handshake
        return {"lost": count}


async def connected(webhook, *, tls=True):
    context = ssl.create_default_context(cafile=str(webhook.ca_file)) if tls else None
    return await asyncio.open_connection("127.0.0.1", webhook.server.port, ssl=context)


async def closed(reader, seconds=10):
    """What is said until the other side closes."""
    async with asyncio.timeout(seconds):
        try:
            return await reader.read()
        except OSError:
            return b""


@contextlib.asynccontextmanager
async def idle(webhook, count):
    """Connections that say nothing, not even to begin a handshake."""
    opened = [await connected(webhook, tls=False) for _ in range(count)]
    try:
        yield opened
    finally:
        for _, writer in opened:
            writer.transport.abort()


@LOOPS
def test_only_a_client_of_an_expected_name_is_answered(tmp_path, run):
    """A certificate of the right authority is not enough: kubelets and etcd have some, too."""
    client = client_certificate(tmp_path / "apiserver.pem", "kubernetes.default.svc")

    async def answers(*names):
        app = application()
        async with serving(tmp_path, app, client_ca=client, client_names=names) as webhook:
            found = await reviewed(webhook, client, 1)
            return found, app.state.allowed, webhook.server.gate.ended["stranger"]

    names = [("apiserver",), ("kubernetes.default.svc",), (), ("other", "apiserver")]
    assert [({"allowed": 1}, 1, 0)] * 4 == [run(answers(*some)) for some in names]
    assert run(answers("other")) == ({"lost": 1}, 0, 1)


@LOOPS
def test_reviews_are_answered_however_many_idle_connections_there_are(tmp_path, run):
    async def answers():
        limits = ConnectionLimits(most=40, most_per_address=30)
        async with serving(tmp_path, application(), limits=limits) as webhook:
            async with idle(webhook, 200) as opened:
                found = await reviewed(webhook, count=20)
                most = len(webhook.server.gate)
                # The longest idle ones went first.
                assert await closed(opened[0][0]) == b""
            return found, most <= 30

    assert run(answers()) == ({"allowed": 20}, True)


def test_one_api_server_may_have_all_its_requests_under_review():
    """It sends 600 at once (400 that read, 200 that write, in one pool of seats). Refused, one would fall under failurePolicy."""
    assert ConnectionLimits().most_per_address > 600


@LOOPS
def test_a_connection_under_a_review_is_not_closed_for_a_newcomer(tmp_path, run):
    """Two reviews are under way and fill the room: the third client is refused, and both are answered."""
    begun, go_on = [], []

    async def slow(asked):
        from reactors.webhook import Answer

        begun.append(asked)
        await go_on[0].wait()
        return Answer(True)

    async def answers():
        go_on.append(asyncio.Event())
        limits = ConnectionLimits(most=2, most_per_address=2)
        async with serving(tmp_path, application(slow), limits=limits) as webhook:
            both = asyncio.create_task(reviewed(webhook, count=2))
            while len(begun) < 2:
                await asyncio.sleep(0.01)
            third = await reviewed(webhook, count=1)
            go_on[0].set()
            return await both, third, webhook.server.gate.ended["refused"]

    assert run(answers()) == ({"allowed": 2}, {"lost": 1}, 1)


@LOOPS
def test_a_client_that_never_ends_its_headers_is_cut(tmp_path, run):
    """Whether it says nothing, a field now and then, or empty lines: no byte prolongs the deadline."""
    limits = ConnectionLimits(handshake_seconds=1, header_seconds=1)

    async def ends(folder, begin, piece, tls=True):
        folder.mkdir()
        async with serving(folder, application(), limits=limits) as webhook:
            reader, writer = await connected(webhook, tls=tls)
            ending = asyncio.create_task(closed(reader))
            writer.write(begin)
            with contextlib.suppress(OSError):
                while not ending.done():
                    writer.write(piece)
                    await asyncio.sleep(0.1)
            writer.transport.abort()
            return await ending, webhook.server.gate.ended

    async def all_end():
        return await asyncio.gather(
            ends(tmp_path / "silent", b"", b""),
            ends(tmp_path / "fields", b"POST /admit HTTP/1.1\r\n", b"a: b\r\n"),
            ends(tmp_path / "empty lines", b"", b"\r\n"),
            ends(tmp_path / "no handshake", b"", b"", tls=False),
        )

    assert run(all_end()) == [(b"", {"late": 1})] * 3 + [(b"", {"handshake": 1})]


@LOOPS
def test_headers_of_more_than_64_kib_are_refused(tmp_path, run):
    """In one read or in many, in one field or in many, ended or not."""
    line = b"POST /admit HTTP/1.1\r\n"
    floods = {
        "one field": line + b"a: " + b"x" * 100_000,
        "an ended field": line + b"a: " + b"x" * 100_000 + b"\r\n\r\n",
        "many fields": line + b"a: x\r\n" * 20_000 + b"\r\n",
        "the path": b"POST /" + b"x" * 100_000 + b" HTTP/1.1\r\n\r\n",
    }

    async def answer(flood):
        async with serving(tmp_path, application()) as webhook:
            reader, writer = await connected(webhook)
            writer.write(flood)
            said = await closed(reader)
            writer.transport.abort()
            return said.partition(b"\r\n")[0], webhook.server.gate.ended["too large"]

    want = (b"HTTP/1.1 431 Request Header Fields Too Large", 1)
    assert {name: want for name in floods} == {n: run(answer(f)) for n, f in floods.items()}


async def test_headers_of_60_kib_are_taken(tmp_path):
    async with serving(tmp_path, application()) as webhook:
        reader, writer = await connected(webhook)
        body = encoded()
        writer.write(
            b"POST /admit HTTP/1.1\r\ncontent-type: application/json\r\nconnection: close\r\n"
            b"a: %b\r\ncontent-length: %d\r\n\r\n" % (b"x" * 60_000, len(body)) + body
        )
        said = await closed(reader)
        writer.transport.abort()

    assert said.startswith(b"HTTP/1.1 200 ")


async def test_trailers_without_end_are_cut(tmp_path):
    """They come after the body, so the bound on headers does not see them; the bound on a request's bytes does."""
    limits = ConnectionLimits(body_bytes=200_000)
    async with serving(tmp_path, application(deadline_seconds=20), limits=limits) as webhook:
        reader, writer = await connected(webhook)
        head = b"POST /admit HTTP/1.1\r\ncontent-type: application/json\r\n"
        writer.write(head + b"transfer-encoding: chunked\r\n\r\n0\r\n")
        ending = asyncio.create_task(closed(reader))
        with contextlib.suppress(OSError):
            while not ending.done():
                writer.write(b"a: " + b"x" * 10_000 + b"\r\n")
                await asyncio.sleep(0.001)
        writer.transport.abort()

        assert await ending == b""
        assert webhook.server.gate.ended["too large"] == 1


@LOOPS
def test_without_files_to_open_accepting_pauses_and_goes_on(tmp_path, run):
    async def answers():
        async with serving(tmp_path, application()) as webhook:
            waiting = [socket.socket() for _ in range(3)]
            target = webhook.target()
            soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            # Every number below the new limit is taken; the clients' were taken before.
            spare = []
            resource.setrlimit(resource.RLIMIT_NOFILE, (waiting[-1].fileno() + 8, hard))
            try:
                with contextlib.suppress(OSError):
                    while True:
                        spare.append(socket.socket())
                for one in waiting:
                    one.setblocking(False)
                    await asyncio.get_running_loop().sock_connect(
                        one, ("127.0.0.1", webhook.server.port)
                    )
                while not webhook.server.gate.pauses:
                    await asyncio.sleep(0.01)
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
                for one in [*spare, *waiting]:
                    one.close()
            found = await closed_loop(target, create, connections=2, count=2)
            return dict(found.answers), webhook.server.gate.pauses

    assert run(answers()) == ({"allowed": 2}, 1)


async def test_figures_tell_of_connections(tmp_path):
    async with serving(tmp_path, application()) as webhook:
        await reviewed(webhook, count=1)
        found = {metric.name: list(metric.samples) for metric in webhook.server.metrics()}

    assert set(found) == {
        "bursar_webhook_connections",
        "bursar_webhook_connections_ended_total",
        "bursar_webhook_accept_pauses_total",
    }
