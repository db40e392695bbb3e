"""The runner stops where going on would be wrong, and says so."""

import asyncio
import sys
import threading
import time

import msgspec
import pytest
import sqlalchemy as sa

from bus.errors import BusUnavailableError, LedgerNewerError
from bus.memory import MemoryTransport
from bus.waiting import ended
from migrations.schema import upgrade
from projections.catalogue import MODEL
from projections.engine.collecting import SWITCH_SECONDS
from projections.engine.folder import Folder
from projections.engine.runner import MOST_BYTES, PACE_SECONDS, Arrived, Runner
from projections.engine.store import Store, engine
from projections.engine.tables import parked
from tests import factories as f


async def test_an_event_of_a_newer_version_is_parked_and_stops_the_runner_e2(tmp_path):
    store = Store(engine(f"sqlite:///{tmp_path}/ledger.db"))
    upgrade(store.engine)
    transport = MemoryTransport()
    newer = msgspec.structs.replace(f.pod_observed("b"), version=99)
    await transport.publish([f.pod_observed("a"), newer])
    runner = Runner(store, Folder(MODEL, store), transport)

    with pytest.raises(LedgerNewerError, match="newer than this program"):
        await runner.run(live=False)

    found = store.select(sa.select(parked.c.sequence))
    assert ([(2,)], 2) == (found, store.checkpoint(MODEL.version).sequence)
    store.close()


class Slow(Store):
    """A ledger whose first commit takes until ``go`` is set; it remembers how many events each commit held."""

    def __init__(self, made):
        super().__init__(made)
        self.commits, self.begun, self.go = [], threading.Event(), threading.Event()

    def commit(self, batch, changes, checkpoint):
        self.begun.set()
        assert self.go.wait(20)
        self.commits.append(len(batch))
        return super().commit(batch, changes, checkpoint)


@pytest.fixture
def slow(tmp_path):
    store = Slow(engine(f"sqlite:///{tmp_path}/ledger.db"))
    upgrade(store.engine)
    yield store
    store.go.set()
    store.close()


async def test_what_arrives_while_a_batch_is_written_is_one_transaction(slow):
    """A million events in commits of a thousand wrote 18 KB to disk for each event, and flushed for each thousand."""
    transport = MemoryTransport()
    await transport.publish([f.pod_observed("a", 1)])
    runner = Runner(slow, Folder(MODEL, slow), transport, batch=10)
    running = asyncio.create_task(runner.run())
    await asyncio.to_thread(slow.begun.wait, 20)
    for number in range(2, 62):
        await transport.publish([f.pod_observed("a", number)])
        await asyncio.sleep(0)
    await asyncio.sleep(0.1)
    slow.go.set()
    async with asyncio.timeout(20):
        while runner.checkpoint.sequence < 61:
            await asyncio.sleep(0.01)
    await ended(running)

    assert slow.commits == [1, 60]


async def test_a_reader_is_held_back_where_the_ledger_is_slow():
    """Memory is bounded in events and in bytes."""
    for most, size, taken in ((5, 1, 5), (1000, MOST_BYTES // 6, 2)):
        arrived = Arrived(most)
        event = msgspec.structs.replace(f.pod_observed("a"), body=b"x" * size)
        putting = [asyncio.create_task(arrived.put([event])) for _ in range(8)]
        done, waiting = await asyncio.wait(putting, timeout=0.05)

        assert len(done) == taken - 1
        assert len(arrived.taken()) == 8
        async with asyncio.timeout(5):
            await asyncio.gather(*waiting)


async def test_one_event_is_written_at_once_and_those_that_follow_it_share_a_transaction(slow):
    slow.go.set()
    transport = MemoryTransport()
    runner = Runner(slow, Folder(MODEL, slow), transport)
    begun = time.monotonic()
    running = asyncio.create_task(runner.run())
    async with asyncio.timeout(20):
        for number in range(1, 21):
            await transport.publish([f.pod_observed("a", number)])
            while runner.checkpoint.sequence < 1:
                await asyncio.sleep(0.001)
        while runner.checkpoint.sequence < 20:
            await asyncio.sleep(0.001)
    await ended(running)

    assert (slow.commits[0], sum(slow.commits)) == (1, 20)
    assert len(slow.commits) <= 2 + (time.monotonic() - begun) / PACE_SECONDS


async def test_a_long_history_is_folded_as_it_is_read_and_stored_in_large_transactions(slow):
    slow.go.set()
    transport = MemoryTransport()
    await transport.publish([f.pod_observed("a", number) for number in range(1, 61)])
    runner = Runner(slow, Folder(MODEL, slow), transport, batch=10, batches=3)

    assert (await runner.run(live=False)).sequence == 60

    assert max(slow.commits) <= 30
    assert len(slow.commits) <= 4


async def test_events_are_waited_for_until_there_are_enough_or_for_a_while():
    arrived, event = Arrived(1000), f.pod_observed("a")
    assert not await arrived.filled(2, 0.001)
    await arrived.put([event])
    assert await arrived.filled(2, 0.001)
    waiting = asyncio.create_task(arrived.filled(2))
    await arrived.put([event])
    async with asyncio.timeout(5):
        assert await waiting
    assert arrived.taken() == [event, event]
    arrived.end()
    assert not await arrived.filled(2)


async def test_what_was_read_before_the_bus_failed_is_written_and_the_failure_told(tmp_path):
    store = Store(engine(f"sqlite:///{tmp_path}/ledger.db"))
    upgrade(store.engine)
    transport = MemoryTransport()
    await transport.publish([f.pod_observed("a", 1)])

    class Failing:
        head, at = transport.head, transport.at

        async def read(self, **options):
            async for events in transport.read(**{**options, "live": False}):
                yield events
            raise BusUnavailableError(reason="gone")

    with pytest.raises(BusUnavailableError, match="gone"):
        await Runner(store, Folder(MODEL, store), Failing()).run()

    assert store.checkpoint(MODEL.version).sequence == 1
    store.close()


async def test_the_event_loop_waits_less_for_the_folds_of_a_live_runner(slow):
    before = sys.getswitchinterval()
    slow.go.set()
    task = asyncio.create_task(Runner(slow, Folder(MODEL, slow), MemoryTransport()).run())
    await asyncio.sleep(0)
    during = sys.getswitchinterval()
    await ended(task)

    assert (during, sys.getswitchinterval()) == (pytest.approx(SWITCH_SECONDS), before)
