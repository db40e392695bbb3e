"""The same recovery on a real JetStream: the condition on the stream's end, ids in its window, a stream made anew."""

import msgspec
import pytest

from bus.embedded import EmbeddedServer
from bus.envelope import MALFORMED, Event
from bus.jetstream import JetStream
from bus.jetstream.connection import Connection
from bus.streams import history
from projections.catalogue import VERSION
from projections.engine import recover as recovery
from projections.engine.checkpoint import confirm
from projections.engine.recover import recover
from projections.engine.verify import verify
from tests import factories as given
from tests.projections.engine.archives import fill, ledger, lives, sequenced

pytestmark = pytest.mark.nats

TWICE = given.pod_observed("twice", 1, 5)
RAW = Event("c", MALFORMED, "", "malformed/2", "bus", 0, b"\xff\x00", 1, 0, "no headers")
LIVES = sequenced([TWICE, RAW, *lives(10), TWICE])
OTHERS = [given.pod_observed(f"late-{n}", 1, 9_000 + n, created=9_000 + n) for n in range(3)]


@pytest.fixture
async def bus(tmp_path, monkeypatch):
    """A server, its empty stream, and what only an administrator may do: make the stream anew."""
    monkeypatch.setattr(recovery, "WINDOW", 30)
    server = EmbeddedServer(tmp_path / "bus")
    await server.start()
    transport = await _connect(server)
    yield server, transport
    await transport.close()
    await server.stop()


async def _connect(server):
    return await JetStream.connect(server.url, history(), credentials=server.credentials)


@pytest.fixture
async def store(tmp_path):
    made = ledger(f"sqlite:///{tmp_path / 'ledger.db'}")
    fill(made, LIVES)
    yield made
    made.close()


async def events_of(transport):
    return [event async for part in transport.read(after=0, live=False) for event in part]


@pytest.mark.parametrize("kept", [0, 1])
async def test_what_a_stream_lost_comes_back_at_its_own_sequences(store, bus, kept):
    """Catalogue E14: the archive restores a stream that is deleted or cut."""
    _, transport = bus
    await transport.publish(LIVES[:kept])

    found = await recover(store, transport)
    again = await recover(store, transport)

    assert found.published == len(LIVES) - kept
    assert again.published == 0
    assert [event.body for event in await events_of(transport)][2:] == [e.body for e in LIVES][2:]
    assert await confirm(store.checkpoint(VERSION), transport) == store.checkpoint(VERSION)
    assert verify(store).ok


async def test_other_events_are_taken_behind_the_archive(store, bus):
    server, transport = bus
    await transport.publish([TWICE, *OTHERS])

    async def renew(last):
        assert last == 1 + len(OTHERS)
        door = await Connection.open(server.url, credentials=server.address.recovery_credentials)
        await door.ask("STREAM.DELETE.HISTORY", msgspec.json.encode({}))
        await door.close()
        made = await _connect(server)
        await made.close()
        return transport

    found = await recover(store, transport, renew)

    stored = await events_of(transport)
    assert (found.taken, found.published) == (len(OTHERS), len(LIVES) + len(OTHERS))
    assert [event.id for event in stored[-3:]] == [event.id for event in OTHERS]
    assert await confirm(store.checkpoint(VERSION), transport) == store.checkpoint(VERSION)
    assert verify(store).ok
