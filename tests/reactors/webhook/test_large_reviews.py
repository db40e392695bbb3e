"""Reviews that are too large, malformed or late, over real connections: each gets an answer with its uid."""

import asyncio
import contextlib
import json
import ssl
import tracemalloc

import pytest
import uvloop

from reactors.webhook import Answer
from reactors.webhook.failure import UNAVAILABLE, UNREADABLE
from reactors.webhook.server import ServerSettings, WebhookServer
from reactors.webhook.turns import FairTurns
from tests.reactors.webhook.asking import ask
from tests.reactors.webhook.reviews import application, deployment, encoded
from tests.reactors.webhook.serving import serving

LOOPS = pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
#: The API server writes each `<`, `&` and U+2028 of a tenant as six bytes.
ESCAPES = b"\\u003c\\u0026\\u2028"


def large(size, uid="review-1", **request):
    """A review with an annotation of so many bytes."""
    raw = encoded(uid=uid, object=deployment(annotations={"a": "HERE"}), **request)
    return raw.replace(b"HERE", ESCAPES * (size // len(ESCAPES)))


class Client:
    """One connection of an API server."""

    def __init__(self, reader, writer):
        self._reader, self._writer = reader, writer

    def begin(self, length=None):
        how = (
            b"content-length: %d" % length if length is not None else b"transfer-encoding: chunked"
        )
        self._writer.write(
            b"POST /admit HTTP/1.1\r\ncontent-type: application/json\r\n" + how + b"\r\n\r\n"
        )

    async def send(self, piece, *, chunked=False):
        for at in range(0, len(piece), 50_000):
            part = piece[at : at + 50_000]
            self._writer.write(b"%x\r\n%b\r\n" % (len(part), part) if chunked else part)
            await self._writer.drain()
        if chunked:
            self._writer.write(b"0\r\n\r\n")

    async def answer(self):
        async with asyncio.timeout(30):
            head = await self._reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
            return head.split()[1], json.loads(await self._reader.readexactly(length))["response"]

    async def ask(self, body, *, chunked=False):
        self.begin(None if chunked else len(body))
        await self.send(body, chunked=chunked)
        return await self.answer()


@contextlib.asynccontextmanager
async def connected(webhook):
    context = ssl.create_default_context(cafile=str(webhook.ca_file))
    reader, writer = await asyncio.open_connection("127.0.0.1", webhook.server.port, ssl=context)
    try:
        yield Client(reader, writer)
    finally:
        writer.transport.abort()


def told(answer):
    status, response = answer
    return status, response["uid"], response["allowed"], response.get("status", {}).get("reason")


@LOOPS
@pytest.mark.parametrize("chunked", [False, True], ids=["with a length", "in chunks"])
def test_a_review_of_any_size_is_denied_with_its_uid_and_the_connection_goes_on(
    tmp_path, run, chunked
):
    """4, 9 and 20 MiB; then one that is small on the same connection."""

    async def answers():
        async with (
            serving(tmp_path, application(deadline_seconds=20)) as webhook,
            connected(webhook) as client,
        ):
            found = [
                told(await client.ask(large(size << 20, f"of-{size}"), chunked=chunked))
                for size in (4, 9, 20)
            ]
            return found, told(await client.ask(encoded()))

    found, small = run(answers())
    assert found == [(b"200", f"of-{size}", False, UNREADABLE) for size in (4, 9, 20)]
    assert small == (b"200", "review-1", True, None)


@LOOPS
def test_a_deletion_is_allowed_before_its_object_was_sent_and_the_rest_is_dropped(tmp_path, run):
    async def answers():
        async with serving(tmp_path, application()) as webhook, connected(webhook) as client:
            body = large(20 << 20, operation="DELETE")
            client.begin(len(body))
            await client.send(body[:200_000])
            first = told(await client.answer())
            await client.send(body[200_000:])
            return first, told(await client.ask(encoded()))

    allowed = (b"200", "review-1", True, None)
    assert run(answers()) == (allowed, allowed)


@LOOPS
@pytest.mark.parametrize("size", [1_000, 100_000, 4 << 20])
def test_a_body_that_stalls_is_denied_with_its_uid_at_the_deadline(tmp_path, run, size):
    async def answers():
        app = application(deadline_seconds=0.5)
        async with serving(tmp_path, app) as webhook, connected(webhook) as client:
            body = large(size)
            client.begin(len(body))
            await client.send(body[:-100])
            late = told(await client.answer())
            await client.send(body[-100:])
            return late, told(await client.ask(encoded())), app.state.late

    want = (b"200", "review-1", False, UNAVAILABLE)
    assert run(answers()) == (want, (b"200", "review-1", True, None), 1)


async def test_a_handler_and_a_failure_that_raise_are_answered_for():
    def broken(review, error):
        raise RecursionError

    async def handler(review):
        raise ValueError

    app = application(handler)
    app._failure = broken
    asker = await ask(app)

    assert (asker.status, asker.response["status"]["reason"]) == (200, UNAVAILABLE)


async def test_an_outline_whose_answer_raises_is_answered_for():
    def broken(outline, reason):
        raise KeyError(outline.name)

    asker = await ask(application(unread=broken), large(4 << 20))

    assert (asker.status, asker.response["status"]["reason"]) == (200, UNAVAILABLE)


async def test_what_cannot_be_read_passes_the_mutating_webhook_as_it_is():
    """The validating one, which is asked next, decides."""

    async def never(review):
        raise AssertionError("asked")

    asker = await ask(application(mutate=never), large(4 << 20), path="/mutate")

    assert asker.response == {"uid": "review-1", "allowed": True}


def test_memory_is_bounded_whatever_many_reviews_bring_and_each_gets_its_answer(tmp_path):
    """30 of 6 MiB at once, of one tenant: 180 MiB pass, and few are held. A neighbor's is read beside them."""

    async def asked(server, body):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        client = Client(reader, writer)
        try:
            return told(await client.ask(body))
        finally:
            writer.transport.abort()

    async def answers():
        body = large(6 << 20)
        neighbor = encoded(
            uid="neighbor", namespace="other", object=deployment(annotations={"a": "x" * 200_000})
        )
        app = application(deadline_seconds=60)
        server = WebhookServer(app, ServerSettings("127.0.0.1", 0, drain_seconds=0.1), None)
        await server.start()
        tracemalloc.start()
        try:
            flood = [asyncio.create_task(asked(server, body)) for _ in range(30)]
            beside = await asked(server, neighbor)
            is_running = not all(one.done() for one in flood)
            return (
                beside,
                is_running,
                {await one for one in flood},
                tracemalloc.get_traced_memory()[1],
            )
        finally:
            tracemalloc.stop()
            await server.stop()

    beside, is_running, flood, most = asyncio.run(answers())
    assert (beside, is_running) == ((b"200", "neighbor", True, None), True)
    assert flood == {(b"200", "review-1", False, UNREADABLE)}
    assert most < 40 << 20


@pytest.mark.simulated
async def test_turns_are_given_in_rotation_and_few_to_one_key():
    turns, order, go_on = FairTurns(3, 2), [], asyncio.Event()

    async def take(key):
        async with turns.turn(key):
            order.append(key)
            await go_on.wait()

    tasks = [asyncio.create_task(take(key)) for key in "aaaabbc"]
    await asyncio.sleep(0.01)
    begun = list(order)
    tasks[2].cancel()
    go_on.set()
    await asyncio.gather(*tasks, return_exceptions=True)

    assert begun == ["a", "a", "b"]
    assert sorted(order) == ["a", "a", "a", "b", "b", "c"]


async def test_a_turn_that_was_given_to_a_cancelled_task_goes_to_the_next():
    turns, got = FairTurns(1, 1), []

    async def take(key):
        async with turns.turn(key):
            got.append(key)

    async with turns.turn("a"):
        first, second = asyncio.create_task(take("b")), asyncio.create_task(take("c"))
        await asyncio.sleep(0)
    first.cancel()
    await asyncio.gather(first, second, return_exceptions=True)

    assert got == ["c"]


async def test_an_answer_of_a_handler_is_unchanged_for_a_large_review_below_the_limit():
    async def handler(review):
        return Answer(False, "over-quota", str(len(review.object["metadata"]["annotations"]["a"])))

    asker = await ask(application(handler), large(1 << 20))

    assert asker.response["status"]["reason"] == "over-quota"
