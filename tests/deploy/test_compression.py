"""Blocks of the bus are compressed, also of a stream that an earlier version made: embedded, and on servers of one's own."""

import json
import logging

import pytest

from bus.embedded import EmbeddedServer
from bus.jetstream import JetStream, adapter
from bus.streams import history
from deploy.runtime.bootstrap import bus
from deploy.runtime.guarding import settle
from deploy.settings.load import load
from tests import factories as given
from tests.bus.roles import RoleServer

pytestmark = pytest.mark.nats
#: More than one block of 8 MB holds.
COUNT = 1_800
LONG = {f"app.kubernetes.io/{n:02d}{'x' * 40}": "y" * 60 for n in range(48)}


def events(first):
    pods = range(first, first + COUNT)
    return given.numbered([given.pod_observed(f"p{n}", n + 10, 1, labels=LONG) for n in pods])


def stored(data):
    return [path.read_bytes() for path in sorted(data.rglob("*.blk"))]


async def test_the_embedded_stream_of_an_earlier_version_is_compressed_in_place(
    tmp_path, monkeypatch
):
    with monkeypatch.context() as earlier:
        earlier.setattr(adapter, "COMPRESSION", "none")
        async with EmbeddedServer(tmp_path) as server:
            old = await JetStream.connect(server.url, history(), credentials=server.credentials)
            await old.publish(events(0))
            created = (await old.head()).created_us
            await old.close()
    assert not any(block.startswith(b"cmp") for block in stored(tmp_path))

    async with bus(load({"data": tmp_path})) as opened:
        assert {line.property: line.state for line in opened.guard}["compression"] == "OK"
        await opened.transport.publish(events(COUNT))
        head = await opened.transport.head()
        found = [
            event async for part in opened.transport.read(after=0, live=False) for event in part
        ]

    assert (head.created_us, head.first_sequence, head.last_sequence) == (created, 1, 2 * COUNT)
    assert [event.sequence for event in found] == [*range(1, 2 * COUNT + 1)]
    packed = [block for block in stored(tmp_path) if block.startswith(b"cmp")]
    assert packed and all(len(block) < 2**21 for block in packed)


async def weak_server(folder, monkeypatch):
    with monkeypatch.context() as earlier:
        earlier.setattr(adapter, "COMPRESSION", "none")
        server = RoleServer(folder)
        await server.__aenter__()
    return server


async def weakness(transport):
    return [line.found for line in await transport.guard() if line.state == "WEAK"]


async def test_a_user_without_the_right_logs_the_command_and_goes_on(tmp_path, monkeypatch, caplog):
    caplog.set_level(logging.WARNING)
    server = await weak_server(tmp_path, monkeypatch)
    try:
        ledger = await server.connected("up")
        await settle(ledger)

        assert (
            "run `nats stream edit HISTORY --compression s2 --max-age 0`, then restart"
            in caplog.text
        )
        assert await weakness(ledger) == ["none"]
        assert await ledger.publish([given.pod_observed("p", 1, 1)]) == [1]
        await ledger.close()
    finally:
        await server.__aexit__()


async def test_a_user_with_the_right_switches_it_on(tmp_path, monkeypatch):
    from bus.jetstream import rights

    asks = (*rights.ROLES["ledger"].asks, "$JS.API.STREAM.UPDATE.HISTORY")
    monkeypatch.setitem(rights.ROLES, "ledger", rights.Role("it may", asks=asks))
    server = await weak_server(tmp_path, monkeypatch)
    try:
        ledger = await server.connected("ledger")
        await settle(ledger)

        assert await weakness(ledger) == []
        await ledger.close()
    finally:
        await server.__aexit__()


@pytest.mark.parametrize(
    ("replicas", "found", "amended"), [(1, "none", ["s2"]), (1, "s2", []), (3, "none", []), (3, "s2", ["none"])]
)  # fmt: skip
async def test_a_stream_that_has_replicas_is_never_compressed(
    monkeypatch, replicas, found, amended
):
    """Whatever number of them the settings ask for."""
    bus, config, changes = (
        JetStream.__new__(JetStream),
        {"num_replicas": replicas, "compression": found},
        [],
    )

    async def info():
        return json.dumps({"config": config}).encode()

    async def amend(**found):
        changes.append(found["compression"])

    monkeypatch.setattr(bus, "_info", info, raising=False)
    monkeypatch.setattr(bus, "amend", amend, raising=False)

    assert await bus.settle() == (amended == ["s2"])
    assert changes == amended
