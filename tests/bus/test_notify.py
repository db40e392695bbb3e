"""Telling somebody outside: where the operator said, once if it is taken, and never for long. Against real little servers."""

import asyncio
import logging
import time

import pytest

from bus.notify import Delivery, tell
from tests.bus.receiving import OK, receiver, receiving

BODY = {"decision": "d", "name": "nb"}


async def test_it_is_posted_once_as_json_with_the_token():
    async with receiving(OK) as (port, got):
        told = await tell(receiver(port, token="t0ken"), BODY)
    ((head, body),) = got

    assert (Delivery("", 1), BODY) == (told, body)
    assert head.startswith("POST /hook?key=s3cret HTTP/1.1\r\n")
    assert "authorization: bearer t0ken" in head.lower()


async def test_without_a_token_none_is_sent():
    async with receiving(OK) as (port, got):
        await tell(receiver(port), BODY)

    assert "authorization" not in got[0][0].lower()


@pytest.mark.parametrize("status", [500, 503, 429])
async def test_what_may_heal_is_tried_again(status):
    async with receiving(b"HTTP/1.1 %d No\r\n\r\n" % status, OK) as (port, got):
        assert Delivery("", 2) == await tell(receiver(port), BODY)

    assert 2 == len(got)


@pytest.mark.parametrize("status", [500, 429])
async def test_after_three_attempts_it_is_left(status):
    async with receiving(b"HTTP/1.1 %d No\r\n\r\n" % status) as (port, got):
        assert Delivery(f"http_{status}", 3) == await tell(receiver(port), BODY)

    assert 3 == len(got)


@pytest.mark.parametrize("status", [400, 401, 404, 410])
async def test_what_will_not_heal_is_asked_once(status):
    async with receiving(b"HTTP/1.1 %d No\r\n\r\n" % status) as (port, got):
        assert Delivery(f"http_{status}", 1) == await tell(receiver(port), BODY)

    assert 1 == len(got)


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_a_redirect_is_not_followed(status):
    async with receiving(OK) as (elsewhere, reached):
        answer = b"HTTP/1.1 %d Go\r\nLocation: http://127.0.0.1:%d/\r\n\r\n" % (status, elsewhere)
        async with receiving(answer) as (port, _):
            told = await tell(receiver(port), BODY)

    assert (Delivery("redirected", 1), []) == (told, reached)


async def never(writer):
    await asyncio.sleep(60)


async def a_byte_now_and_then(writer):
    for byte in b"HTTP/1.1 200 OK\r\n" + b"X" * 10_000:
        writer.write(bytes([byte]))
        await writer.drain()
        await asyncio.sleep(0.05)


async def announcing(writer):
    while True:
        writer.write(b"HTTP/1.1 103 Early Hints\r\n\r\n")
        await writer.drain()
        await asyncio.sleep(
            0
        )  # asker and answerer share a loop: a flood would keep its clock from striking


@pytest.mark.parametrize("answer", [never, a_byte_now_and_then, announcing])
async def test_who_does_not_answer_costs_a_bounded_time(answer):
    async with receiving(answer) as (port, _):
        began = time.monotonic()
        told = await tell(receiver(port), BODY)

    assert Delivery("timed_out", 3) == told
    assert time.monotonic() - began < 4


async def test_all_attempts_together_have_a_deadline():
    async with receiving(never) as (port, _):
        began = time.monotonic()
        told = await tell(receiver(port, deadline_seconds=30.0, total_seconds=0.5), BODY)

    assert Delivery("timed_out", 1) == told
    assert time.monotonic() - began < 2


async def without_end(writer):
    writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        writer.write(b"x" * 65_536)
        await writer.drain()


async def test_nothing_of_an_answer_is_read_but_its_status():
    async with receiving(without_end) as (port, _):
        assert Delivery("", 1) == await tell(receiver(port), BODY)


@pytest.mark.parametrize("answer", [b"", b"garbage\r\n\r\n", b"HTTP/1.1 abc\r\n\r\n"])
async def test_what_is_no_answer_is_no_connection(answer):
    async with receiving(answer) as (port, _):
        assert Delivery("no_connection", 3) == await tell(receiver(port), BODY)


async def test_nobody_there():
    async with receiving(OK) as (port, _):
        pass

    assert Delivery("no_connection", 3) == await tell(receiver(port), BODY)


@pytest.mark.parametrize("url", ["http://", "http://[", "ftp://host/", "http://host:99999/"])
async def test_an_address_that_is_none_is_a_fault_and_no_error(url):
    told = await tell(receiver(0, url=url, attempts=1), BODY)

    assert told.fault in ("no_connection", "not_an_address")


async def test_proxies_of_the_environment_are_not_used(monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    async with receiving(OK) as (port, _):
        assert Delivery("", 1) == await tell(receiver(port), BODY)


async def test_neither_address_nor_token_is_logged_or_shown(caplog):
    caplog.set_level(logging.DEBUG)
    for answer in (OK, b"HTTP/1.1 500 No\r\n\r\n", b""):
        async with receiving(answer) as (port, _):
            to = receiver(port, token="t0ken")
            await tell(to, BODY)

    assert "s3cret" not in caplog.text + repr(to)
    assert "t0ken" not in caplog.text + repr(to)
