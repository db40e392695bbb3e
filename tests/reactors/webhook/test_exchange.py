"""What HTTP/1.1 allows an asker to do, and what an application may answer: each asked of a real server, over TLS."""

import asyncio
import ssl

import pytest

from reactors.webhook.gate import ConnectionLimits
from reactors.webhook.health import HealthApplication
from tests.reactors.webhook.reviews import application, encoded
from tests.reactors.webhook.serving import serving

POST = b"POST /admit HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"


def sized(body, fields=b""):
    return POST + fields + b"content-length: %d\r\n\r\n" % len(body) + body


def chunked(body, piece):
    parts = [body[at : at + piece] for at in range(0, len(body), piece)]
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts)
    return POST + b"transfer-encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"


class Plain:
    """An application that answers as it is told."""

    draining = False

    def __init__(self, answer):
        self.answer = answer

    async def __call__(self, scope, receive, send):
        await self.answer(scope, receive, send)


async def said(tmp_path, app, *pieces, seconds=0.0, **settings):
    """All that is answered until the server closes."""
    async with serving(tmp_path, app, **settings) as webhook:
        context = ssl.create_default_context(cafile=str(webhook.ca_file))
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", webhook.server.port, ssl=context
        )
        for piece in pieces:
            writer.write(piece)
            await asyncio.sleep(seconds)
        async with asyncio.timeout(10):
            answered = await reader.read()
        writer.transport.abort()
        return answered, webhook.server.gate.ended


def statuses(answered):
    return [int(part[:3]) for part in answered.split(b"HTTP/1.1 ")[1:]]


CLOSE = b"connection: close\r\n"
WAYS = {
    "in one piece": (sized(encoded(), CLOSE),),
    "byte by byte": tuple(bytes([byte]) for byte in sized(encoded(), CLOSE)),
    "to an address with a host": (
        sized(encoded(), CLOSE).replace(b"/admit", b"https://x:1/admit?timeout=5s", 1),
    ),
    "in HTTP/1.0": (sized(encoded()).replace(b"HTTP/1.1", b"HTTP/1.0", 1),),
    "with more behind the last one": (sized(encoded(), CLOSE) + b"POST /more",),
}


@pytest.mark.parametrize("pieces", WAYS.values(), ids=list(WAYS))
async def test_a_review_is_answered_whatever_way_it_is_asked(tmp_path, pieces):
    answered, ended = await said(tmp_path, application(), *pieces)

    assert (statuses(answered), dict(ended)) == ([200], {})
    assert b'"allowed":true' in answered


async def test_reviews_before_their_turn_are_answered_in_order(tmp_path):
    begun = []

    async def slow(review):
        from reactors.webhook import Answer

        begun.append(review.name)
        await asyncio.sleep(0.05)
        return Answer(True)

    bodies = [encoded(name=f"n{k}") for k in range(5)]
    wanted = b"".join(map(sized, bodies[:4])) + sized(bodies[4], CLOSE)
    answered, _ = await said(tmp_path, application(slow), wanted)

    assert statuses(answered) == [200] * 5
    assert begun == [f"n{k}" for k in range(5)]


async def test_a_body_in_chunks_is_one_body(tmp_path):
    last = sized(encoded(), CLOSE)
    pieces = [chunked(encoded(), 7), chunked(encoded(), 10_000), last]
    answered, _ = await said(tmp_path, application(), *pieces, seconds=0.05)

    assert statuses(answered) == [200] * 3


async def test_who_waits_to_send_the_body_is_told_to(tmp_path):
    head, _, body = sized(encoded(), b"expect: 100-continue\r\n" + CLOSE).partition(b"\r\n\r\n")
    answered, _ = await said(tmp_path, application(), head + b"\r\n\r\n", body, seconds=0.1)

    assert statuses(answered) == [100, 200]


async def test_who_asks_for_another_protocol_is_answered_in_this_one(tmp_path):
    """What follows his header is no body then."""
    wanted = sized(encoded(), b"connection: upgrade\r\nupgrade: h2c\r\n")
    answered, _ = await said(tmp_path, application(), wanted)

    assert statuses(answered) == [400]


async def test_what_is_not_http_is_told_so(tmp_path):
    answered, ended = await said(tmp_path, application(), b"GET\0/ nothing\r\n\r\n")

    assert (statuses(answered), dict(ended)) == ([400], {"not HTTP": 1})


async def test_an_application_that_fails_answers_500_and_closes(tmp_path, caplog):
    async def fails(scope, receive, send):
        raise ValueError("wrong")

    async def forgets(scope, receive, send):
        return

    for answer in (fails, forgets):
        (tmp_path / answer.__name__).mkdir()
        answered, _ = await said(tmp_path / answer.__name__, Plain(answer), sized(b"{}"))
        assert statuses(answered) == [500]
    assert "was not answered" in caplog.text


async def test_an_answer_without_a_length_is_sent_in_chunks_to_a_slow_reader(tmp_path):
    """Nothing is made before the other side takes what was made."""
    made = []

    async def answer(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for k in range(200):
            made.append(k)
            await send({"type": "http.response.body", "body": b"x" * 65_536, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async with serving(tmp_path, Plain(answer)) as webhook:
        context = ssl.create_default_context(cafile=str(webhook.ca_file))
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", webhook.server.port, ssl=context, limit=65_536
        )
        writer.write(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        await asyncio.sleep(0.5)
        waiting = len(made)
        answered = await reader.read()
        writer.transport.abort()

    assert waiting < 200
    assert answered.count(b"\r\n10000\r\n") == 200
    assert answered.endswith(b"\r\n0\r\n\r\n")


async def test_a_head_alone_has_no_body(tmp_path):
    wanted = b"HEAD /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
    answered, _ = await said(tmp_path, HealthApplication(), wanted)

    assert answered.endswith(b"\r\n\r\n")
    assert b"content-length: 3\r\n" in answered


async def test_a_connection_that_rests_too_long_is_closed_and_not_counted_as_late(tmp_path):
    limits = ConnectionLimits(idle_seconds=1)
    answered, ended = await said(tmp_path, application(), sized(encoded()), limits=limits)

    assert (statuses(answered), dict(ended)) == ([200], {})
