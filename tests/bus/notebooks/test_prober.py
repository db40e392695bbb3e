"""The adapter to notebook servers, against servers that mean harm."""

import asyncio
import ipaddress
import time
import tracemalloc

import pytest

from bus.notebooks.prober import (
    ProbeResponse,
    ProbeSettings,
    ProbeTarget,
    Unanswered,
    fetch,
    permitted,
)
from tests.bus.hostile import BEHAVIOURS, OK, endless, says, server, whole

DEADLINE_SECONDS = 0.3
TEST = ProbeSettings(allow_loopback=True, deadline_seconds=DEADLINE_SECONDS)


async def ask(behave, settings=TEST, **target):
    async with server(behave) as port:
        return await fetch(
            ProbeTarget("127.0.0.1", port, **{"path": "/api/kernels"} | target), settings
        )


def told(outcome):
    """The status of an answer, or the fault of none."""
    return outcome.status if isinstance(outcome, ProbeResponse) else outcome.fault


@pytest.mark.parametrize(("behave", "expected"), BEHAVIOURS.values(), ids=list(BEHAVIOURS))
async def test_a_server_that(behave, expected):
    started = time.monotonic()

    outcome = await ask(behave)

    assert expected == told(outcome)
    assert time.monotonic() - started < DEADLINE_SECONDS + 0.5


async def test_a_redirect_is_never_followed():
    reached = []

    async def elsewhere(reader, writer):
        reached.append(await reader.readuntil(b"\r\n\r\n"))

    async with server(elsewhere) as port:
        location = b"Location: http://127.0.0.1:%d/" % port
        outcome = await ask(says(whole(b"", location, status=b"307 Go")))

    assert (307, []) == (told(outcome), reached)


async def test_proxies_of_the_environment_are_not_asked(monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")

    assert ProbeResponse(200, b"[]") == await ask(says(whole(b"[]")))


async def test_the_deadline_is_five_seconds_in_all():
    slow = endless(b"x", OK + b"Content-Length: 99999\r\n\r\n", 0.1)
    started = time.monotonic()

    outcome = await ask(slow, ProbeSettings(allow_loopback=True, deadline_seconds=1.0))

    assert 5.0 == ProbeSettings().deadline_seconds
    assert Unanswered("timed_out") == outcome
    assert 0.9 < time.monotonic() - started < 1.5


@pytest.mark.parametrize(("size", "said"), [(262_144, 200), (262_145, "too_large")])
async def test_a_body_may_have_256_kb(size, said):
    assert said == told(await ask(says(whole(b"x" * size))))


@pytest.mark.parametrize(("count", "said"), [(99, 200), (100, "too_large")])
async def test_an_answer_may_have_a_hundred_headers(count, said):
    assert said == told(await ask(says(whole(b"[]", *[b"a: b"] * count))))


async def test_a_flood_takes_little_memory():
    tracemalloc.start()
    try:
        await ask(endless(b"x" * 65_536, OK + b"\r\n"))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert peak < 4 * 2**20


async def test_a_refused_connection_is_no_answer():
    async with server(says()) as port:
        pass

    assert Unanswered("no_connection") == await fetch(ProbeTarget("127.0.0.1", port, "/"), TEST)


async def test_a_cancelled_probe_leaves_no_connection():
    closed = asyncio.Event()

    async def waits(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        assert b"" == await reader.read()
        closed.set()

    async with server(waits) as port:
        task = asyncio.create_task(fetch(ProbeTarget("127.0.0.1", port, "/"), TEST))
        await asyncio.sleep(0.05)
        task.cancel()

        await asyncio.wait_for(closed.wait(), 1)


async def test_the_request_names_what_it_wants_and_nothing_else():
    seen = []

    async def listens(reader, writer):
        seen.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(whole(b"[]"))

    async with server(listens) as port:
        await fetch(ProbeTarget("127.0.0.1", port, "/nb/api/kernels?x=1", token="t0"), TEST)

    assert seen == [
        b"GET /nb/api/kernels?x=1 HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nUser-Agent: bursar-probe\r\n"
        b"Accept: application/json, text/plain\r\nAccept-Encoding: identity\r\n"
        b"Connection: close\r\nAuthorization: token t0\r\n\r\n" % port
    ]


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "0.0.0.0", "::",
        "169.254.169.254", "::ffff:169.254.169.254", "fe80::1", "fe80::1%eth0",
        "100.100.100.200", "192.0.0.192", "168.63.129.16", "fd00:ec2::254", "fd20:ce::254",
        "64:ff9b::a9fe:a9fe", "2002:7f00:1::1", "2001:0:4136:e378::",
        "224.0.0.1", "ff02::1", "255.255.255.255", "240.0.0.1",
        "10.96.0.1", "::ffff:10.96.0.1",
        "kubernetes.default", "localhost", "", "2130706433", "0x7f.1", "127.1", "10.0.0.1:80", "10.0.0.01",
    ],
)  # fmt: skip
async def test_an_address_that_no_pod_has_is_refused(address):
    settings = ProbeSettings(refused=(ipaddress.ip_network("10.96.0.0/12"),))

    assert Unanswered("address_refused") == await fetch(ProbeTarget(address, 80, "/"), settings)


@pytest.mark.parametrize("address", ["10.0.0.7", "192.168.1.9", "fd12::7", "172.16.0.3", "8.8.8.8"])
def test_an_address_that_a_pod_may_have_is_permitted(address):
    assert ipaddress.ip_address(address) == permitted(address, ProbeSettings())


def test_an_address_inside_another_is_taken_out():
    assert ipaddress.ip_address("10.0.0.7") == permitted("::ffff:10.0.0.7", ProbeSettings())


@pytest.mark.parametrize(
    "target",
    [
        {"path": "api"}, {"path": ""}, {"path": "/a b"}, {"path": "/a\r\nX: y"}, {"path": "/ä"},
        {"path": "/a\x00"}, {"path": "/", "token": "a\r\nX: y"}, {"path": "/", "token": "a b"},
    ],
)  # fmt: skip
async def test_a_path_or_token_that_could_start_another_line_is_refused(target):
    assert Unanswered("request_refused") == await ask(says(whole(b"[]")), **target)


@pytest.mark.parametrize("port", [0, -1, 65_536])
async def test_a_port_that_does_not_exist_is_refused(port):
    assert Unanswered("request_refused") == await fetch(ProbeTarget("10.0.0.7", port, "/"), TEST)
