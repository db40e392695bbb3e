"""Kill -9 under load loses nothing and doubles nothing; a history that is not the ledger's is noticed before it is folded.

A real nats-server and a real ledger process are killed in turn while events are published. Then streams are damaged in
every way that was seen in the field (docs/reliability.md), on the real server's files and in memory.

Source: docs/reliability.md.
"""

import asyncio
import os
import shutil
import signal
import sys
import time

import msgspec
import pytest
import sqlalchemy as sa

from bus.embedded import EmbeddedServer
from bus.errors import BusUnavailableError, HistoryDivergedError, PublishUnknownError
from bus.jetstream import JetStream
from bus.jetstream.connection import Connection
from bus.memory import MemoryTransport
from bus.streams import history
from projections.catalogue import METADATA, MODEL
from projections.engine.folder import Folder
from projections.engine.runner import Runner
from projections.engine.store import Store, engine
from projections.engine.tables import events as archive
from tests import factories as f
from tests.projections.ledger import dump, tables

KILLS = 30
#: Events of one publish, and how often one is made: some 1,000 events a second while the bus is up.
WINDOW, EVERY_SECONDS = 120, 0.1


def life(number):
    """The events of one short-lived pod."""
    uid, at = f"u{number}", number % 5000
    fields = {"created": at, "team": f"t{number % 7}"}
    return [
        f.pod_observed(uid, 3 * number + 1, at, node=None, phase="Pending", **fields),
        f.pod_observed(uid, 3 * number + 2, at + 1, scheduled=at + 1, **fields),
        f.pod_vanished(uid, 3 * number + 3, at + 9, deletion=at + 9, **fields),
    ]


def lives(first, count):
    return [event for number in range(first, first + count) for event in life(number)]


def new_store(folder):
    store = Store(engine(f"sqlite:///{folder / 'ledger.db'}"))
    METADATA.create_all(store.engine)
    return store


class Load:
    """Publishes for ever; remembers the ids that were acknowledged."""

    def __init__(self, transport):
        self.transport = transport
        self.acknowledged = []
        self.stopped = False

    async def run(self):
        number = 0
        while not self.stopped:
            window = lives(number, WINDOW // 3 + 1)
            number += WINDOW // 3 + 1
            await self._until_acknowledged(window)
            await asyncio.sleep(EVERY_SECONDS)

    async def _until_acknowledged(self, window):
        while True:
            try:
                await self.transport.publish(window)
            except (PublishUnknownError, BusUnavailableError):
                await asyncio.sleep(0.1)
            else:
                self.acknowledged += [event.id for event in window]
                return


async def ledger_process(folder):
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.acceptance.ledger_process", str(folder), "200"
    )


async def kill_in_turn(server, process, folder):
    """Kill the server and the ledger process alternately; the process that runs at the end."""
    for kill in range(KILLS):
        await asyncio.sleep(0.7)
        if kill % 2:
            assert process.returncode is None, "the ledger process ended by itself"
            process.send_signal(signal.SIGKILL)
            await process.wait()
            process = await ledger_process(folder)
        elif pid := server.pid:
            os.kill(pid, signal.SIGKILL)
    return process


async def folded_up_to(store, last, seconds=60):
    """Wait until the ledger has the stream's last event."""
    ends = time.monotonic() + seconds
    while store.checkpoint(MODEL.version).sequence < last:
        assert time.monotonic() < ends, f"the ledger stays behind {last}"
        await asyncio.sleep(0.1)


@pytest.mark.slow
@pytest.mark.nats
async def test_thirty_kills_of_bus_and_ledger_under_load_lose_and_double_nothing(tmp_path):
    store = new_store(tmp_path)
    async with EmbeddedServer(tmp_path) as server:
        transport = await JetStream.connect(
            server.url, history(), credentials=server.credentials, connect_seconds=30
        )
        load = Load(transport)
        publishing = asyncio.create_task(load.run())
        began = time.monotonic()
        process = await kill_in_turn(server, await ledger_process(tmp_path), tmp_path)
        load.stopped = True
        await publishing
        rate = len(load.acknowledged) / (time.monotonic() - began)
        await folded_up_to(store, (await transport.head()).last_sequence)
        assert process.returncode is None, "the ledger process ended by itself"
        process.kill()
        await process.wait()
        await transport.close()
    stored = store.select(sa.select(archive.c.sequence, archive.c.id).order_by(archive.c.sequence))

    assert load.acknowledged == [id for _, id in stored]
    assert list(range(1, len(stored) + 1)) == [sequence for sequence, _ in stored]
    assert tables(f.numbered(lives(0, len(stored) // 3))) == dump(store)
    assert rate >= 300


# --- a history that is not the ledger's ---------------------------------------------------------------


def body_changed(event):
    return msgspec.structs.replace(
        event, body=event.body.replace(b'"Running"', b'"Pending"') + b" "
    )


def reused(bus, kept, new):
    """The tail is lost, and new events take its sequences."""
    del bus.events[kept:]
    for event in f.numbered(lives(1000, new), first=kept + 1):
        bus.events.append(event)


def swapped(bus, one, other):
    first, second = bus.events[one - 1], bus.events[other - 1]
    bus.events[one - 1] = msgspec.structs.replace(second, sequence=one)
    bus.events[other - 1] = msgspec.structs.replace(first, sequence=other)


def at_checkpoint(bus, **changes):
    bus.events[59] = msgspec.structs.replace(bus.events[59], **changes)


#: Each makes a stream of 60 folded and 30 new events into one that is not the ledger's.
DAMAGES = {
    "the last event is lost": lambda bus: bus.events.__delitem__(slice(59, None)),
    "ten events are lost": lambda bus: bus.events.__delitem__(slice(50, None)),
    "all events are lost": lambda bus: bus.events.clear(),
    "the tail is lost and fewer are said": lambda bus: reused(bus, 50, 2),
    "the tail is lost and as many are said": lambda bus: reused(bus, 57, 1),
    "the tail is lost and more are said": lambda bus: reused(bus, 50, 20),
    "all is lost and more are said": lambda bus: reused(bus, 0, 40),
    "an old backup is restored and goes on": lambda bus: reused(bus, 30, 30),
    "the stream was created anew with the same events": lambda bus: setattr(bus, "created_us", 2),
    "another stream": lambda bus: setattr(bus, "stream", "OTHER"),
    "the event at the checkpoint has another body": lambda bus: at_checkpoint(bus, body=b"{}"),
    "… another time": lambda bus: at_checkpoint(bus, time_us=1),
    "… another key": lambda bus: at_checkpoint(bus, key="other"),
    "… another id": lambda bus: at_checkpoint(bus, id="other"),
    "the event at the checkpoint is missing": lambda bus: bus.events.__delitem__(59),
    "the next event is missing": lambda bus: bus.events.__delitem__(60),
    "an event after the next is missing": lambda bus: bus.events.__delitem__(62),
    "the event at the checkpoint and the next are swapped": lambda bus: swapped(bus, 60, 61),
    "the checkpoint's and an older event are swapped": lambda bus: swapped(bus, 60, 12),
}


async def folded(store, transport, batch=7):
    await Runner(store, Folder(MODEL, store), transport, batch=batch).run(live=False)


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=list(DAMAGES))
async def test_another_history_is_noticed_before_its_next_event_is_folded(damage, tmp_path):
    """docs/wrong-input.md E7: a gap, a regression, a stream made anew, another event at the checkpoint."""
    store, bus = new_store(tmp_path), MemoryTransport()
    await bus.publish(lives(0, 20))
    await folded(store, bus)
    await bus.publish(lives(20, 10))
    before = store.checkpoint(MODEL.version)
    damage(bus)

    with pytest.raises(HistoryDivergedError):
        await folded(store, bus, batch=1000)

    # What lies before a gap is still the ledger's own history and may be in it; nothing behind it is.
    after = store.checkpoint(MODEL.version)
    contiguous = [e.id for e in lives(0, 30)][: after.sequence]
    store_ids = store.select(sa.select(archive.c.id).order_by(archive.c.sequence))
    assert before.sequence <= after.sequence <= 62
    assert contiguous == [row[0] for row in store_ids]
    store.close()


@pytest.mark.parametrize("restarts", range(3))
async def test_a_healthy_history_raises_no_alarm(restarts, tmp_path):
    store, bus = new_store(tmp_path), MemoryTransport()
    for start in range(restarts + 1):
        await bus.publish(lives(10 * start, 10))
        await folded(store, bus)

    assert 30 * (restarts + 1) == store.checkpoint(MODEL.version).sequence
    store.close()


def block(folder):
    """The file that holds the stream's messages, its index taken away as after a power cut."""
    store = folder / "bus" / "store" / "jetstream"
    (path,) = store.glob("*/streams/HISTORY/msgs/*.blk")
    (path.parent / "index.db").unlink(missing_ok=True)
    return path


def cut(folder, octets):
    path = block(folder)
    os.truncate(path, path.stat().st_size - octets)


def flip(folder, octets):
    path = block(folder)
    raw = bytearray(path.read_bytes())
    raw[-octets] ^= 1
    path.write_bytes(raw)


def restore(folder):
    shutil.rmtree(folder / "bus" / "store")
    shutil.copytree(folder / "backup", folder / "bus" / "store")


async def recreate(server):
    recovery = await Connection.open(
        server.url, credentials=("recovery", server.address.recovery_password)
    )
    await recovery.ask("STREAM.DELETE.HISTORY", b"{}")
    await recovery.close()


async def said(folder, events, store=None, before=None):
    """Start the server, do ``before``, publish, fold if there is a store, and stop."""
    async with EmbeddedServer(folder) as server:
        if before is not None:
            await before(server)
        transport = await JetStream.connect(server.url, history(), credentials=server.credentials)
        await transport.publish(events)
        try:
            if store is not None:
                await folded(store, transport)
        finally:
            await transport.close()


@pytest.mark.slow
@pytest.mark.waits
@pytest.mark.nats
@pytest.mark.parametrize("said_anew", [0, 1, 30], ids=["nothing new", "fewer new", "more new"])
@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda folder: cut(folder, 10), id="the last message is cut"),
        pytest.param(lambda folder: cut(folder, 4000), id="some messages are cut"),
        pytest.param(lambda folder: flip(folder, 60), id="a bit of the last message is flipped"),
        pytest.param(lambda folder: block(folder).unlink(), id="the last block is deleted"),
        pytest.param(restore, id="an old backup is restored"),
        pytest.param(None, id="the stream is created anew"),
    ],
)
async def test_damage_to_a_real_stream_is_noticed_before_its_next_event_is_folded(
    damage, said_anew, tmp_path
):
    """docs/wrong-input.md E7 on a real server's files."""
    store = new_store(tmp_path)
    await said(tmp_path, lives(0, 10))
    shutil.copytree(tmp_path / "bus" / "store", tmp_path / "backup")
    await said(tmp_path, lives(10, 10), store)
    before = dump(store)
    if damage is not None:
        damage(tmp_path)

    with pytest.raises(HistoryDivergedError):
        await said(tmp_path, lives(500, said_anew), store, before=None if damage else recreate)

    assert before == dump(store)
    store.close()
