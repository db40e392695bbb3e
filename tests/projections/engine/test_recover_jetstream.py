"""The same recovery on a real JetStream: the condition on the stream's end, ids in its window, a stream made anew."""

import asyncio

import msgspec
import pytest

from bus.embedded import EmbeddedServer
from bus.envelope import MALFORMED, Event
from bus.jetstream import JetStream
from bus.jetstream.connection import Connection
from bus.streams import history
from projections.catalogue import MODEL
from projections.engine import recover as recovery
from projections.engine.checkpoint import confirm
from projections.engine.recover import recover
from projections.engine.verify import verify
from tests import factories as given
from tests.bus.damage import DAMAGES
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


def _renewing(server, transport):
    """What only an administrator may do: delete the stream, and make it anew."""

    async def renew(last):
        assert last == (await transport.head()).last_sequence
        door = await Connection.open(
            server.url, credentials=("recovery", server.address.recovery_password)
        )
        await door.ask("STREAM.DELETE.HISTORY", msgspec.json.encode({}))
        await door.close()
        made = await _connect(server)
        await made.close()
        return transport

    return renew


async def events_of(transport):
    return [event async for part in transport.read(after=0, live=False) for event in part]


@pytest.mark.parametrize("kept", [0, 1])
async def test_what_a_stream_lost_comes_back_at_its_own_sequences(store, bus, kept):
    """docs/wrong-input.md E14: the archive restores a stream that is deleted or cut."""
    _, transport = bus
    await transport.publish(LIVES[:kept])

    found = await recover(MODEL, store, transport)
    again = await recover(MODEL, store, transport)

    assert found.published == len(LIVES) - kept
    assert again.published == 0
    assert [event.body for event in await events_of(transport)][2:] == [e.body for e in LIVES][2:]
    assert await confirm(store.checkpoint(MODEL.version), transport) == store.checkpoint(
        MODEL.version
    )
    assert verify(MODEL, store).ok


async def test_other_events_are_taken_behind_the_archive(store, bus):
    server, transport = bus
    await transport.publish([TWICE, *OTHERS])

    found = await recover(MODEL, store, transport, _renewing(server, transport))

    stored = await events_of(transport)
    assert (found.taken, found.published) == (len(OTHERS), len(LIVES) + len(OTHERS))
    assert [event.id for event in stored[-3:]] == [event.id for event in OTHERS]
    assert await confirm(store.checkpoint(MODEL.version), transport) == store.checkpoint(
        MODEL.version
    )
    assert verify(MODEL, store).ok


@pytest.mark.parametrize(
    "folded", [len(lives(10)), len(lives(10)) - 1, 3], ids=["all", "all-but-one", "few"]
)
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=list(DAMAGES))
async def test_a_stream_whose_end_is_damaged_is_made_anew_from_what_anybody_has(
    tmp_path, monkeypatch, damage, folded
):
    """The damaged messages come back from the archive; those that it never saw are counted, and what is whole is kept."""
    monkeypatch.setattr("bus.jetstream.reader.HEARTBEAT_SECONDS", 0.2)
    said = lives(10)
    made = ledger(f"sqlite:///{tmp_path / 'ledger.db'}")
    fill(made, said[:folded])
    async with EmbeddedServer(tmp_path / "bus") as server:
        transport = await _connect(server)
        await transport.publish(said)
        await transport.close()
    damage(tmp_path / "bus")

    async with EmbeddedServer(tmp_path / "bus") as server, asyncio.timeout(60):
        transport = await _connect(server)
        found = await recover(MODEL, made, transport, _renewing(server, transport))
        again = await recover(MODEL, made, transport)
        stored = await events_of(transport)
        await transport.close()

    kept = {event.id for event in stored}
    assert [event.id for event in said if event.id in kept] == [event.id for event in stored]
    assert (len(stored), again.published) == (len(said) - found.lost, 0)
    assert {event.id for event in said[:folded]} <= kept
    assert (found.lost > 0) == (folded < len(said))
    made.close()
