"""One live read for all who follow the history: each gets all of it in order, and none waits for another."""

import asyncio
from contextlib import aclosing

import pytest

from bus import sharing
from bus.errors import BusUnavailableError, HistoryDivergedError
from bus.memory import MemoryTransport
from bus.sharing import SharedReading
from tests.factories import pod_observed


class Counting(MemoryTransport):
    """Knows how many live reads there are, and how many events finite ones gave."""

    def __init__(self):
        super().__init__()
        self.live = self.most = self.alone = 0
        self.away = 0

    async def read(self, *, live=True, **given):
        if not live and self.away:
            self.away -= 1
            raise BusUnavailableError(reason="a test")
        self.live += live
        self.most = max(self.most, self.live)
        try:
            async for events in super().read(live=live, **given):
                self.alone += 0 if live else len(events)
                yield events
        finally:
            self.live -= live


async def say(transport, first, last):
    await transport.publish([pod_observed(f"p{n}") for n in range(first, last + 1)])


class Follower:
    """Reads for ever in a task of its own; ``gate`` closed: it takes nothing more."""

    def __init__(self, shared, after=0, **given):
        self.seen, self.gate = [], asyncio.Event()
        self.gate.set()
        self.task = asyncio.create_task(self._follow(shared, after, given))

    async def _follow(self, shared, after, given):
        async with aclosing(shared.read(after=after, linger_seconds=0.0, **given)) as batches:
            async for events in batches:
                self.seen += [event.sequence for event in events]
                await self.gate.wait()

    async def reach(self, sequence):
        async with asyncio.timeout(10):
            while not self.seen or self.seen[-1] < sequence:
                await asyncio.sleep(0)

    async def stop(self):
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(sharing, "MOST", 20)
    monkeypatch.setattr(sharing, "NEAR", 5)


async def test_many_readers_are_one_read_of_the_bus():
    transport = Counting()
    shared = SharedReading(transport)
    readers = [Follower(shared) for _ in range(3)]
    for first in (1, 11, 21):
        await say(transport, first, first + 9)
        await asyncio.gather(*(reader.reach(first + 9) for reader in readers))

    assert [list(range(1, 31))] * 3 == [reader.seen for reader in readers]
    assert (1, 1, 0) == (transport.live, transport.most, transport.alone)
    for reader in readers:
        await reader.stop()
    assert 0 == transport.live


async def test_who_comes_later_reads_what_it_lacks_and_joins(few):
    transport = Counting()
    await say(transport, 1, 100)
    shared = SharedReading(transport)
    first = Follower(shared, after=90)
    await first.reach(100)
    late, later = Follower(shared), Follower(shared, after=97)
    await asyncio.gather(late.reach(100), later.reach(100))
    await say(transport, 101, 110)
    await asyncio.gather(*(reader.reach(110) for reader in (first, late, later)))

    assert list(range(1, 111)) == late.seen
    assert list(range(98, 111)) == later.seen
    assert 1 == transport.most
    for reader in (first, late, later):
        await reader.stop()


async def test_nobody_waits_for_a_slower_one_which_catches_up_by_itself(few):
    transport = Counting()
    shared = SharedReading(transport)
    quick, slow = Follower(shared), Follower(shared)
    slow.gate.clear()
    for first in range(1, 500, 10):
        await say(transport, first, first + 9)
        await quick.reach(first + 9)
    assert len(slow.seen) <= 20
    slow.gate.set()
    await slow.reach(500)
    await say(transport, 501, 510)
    await asyncio.gather(quick.reach(510), slow.reach(510))

    assert list(range(1, 511)) == slow.seen == quick.seen
    assert 1 == transport.most
    await quick.stop()
    await slow.stop()


@pytest.mark.simulated
async def test_the_only_reader_sets_the_pace_and_what_is_held_for_it_is_bounded(few):
    transport = Counting()
    shared = SharedReading(transport)
    only = Follower(shared, batch=10)
    only.gate.clear()
    for first in range(1, 500, 10):
        await say(transport, first, first + 9)
    await only.reach(1)
    await asyncio.sleep(0.01)
    held = sum(len(reader._events) for reader in shared._readers)
    only.gate.set()
    await only.reach(500)

    assert held <= 1_000
    assert (list(range(1, 501)), 0) == (only.seen, transport.alone)
    await only.stop()


async def test_one_who_leaves_stops_no_other_and_the_next_begins_anew():
    transport = Counting()
    shared = SharedReading(transport)
    one, other = Follower(shared), Follower(shared)
    await say(transport, 1, 10)
    await asyncio.gather(one.reach(10), other.reach(10))
    await one.stop()
    await say(transport, 11, 20)
    await other.reach(20)
    await other.stop()
    again = Follower(shared, after=15)
    await again.reach(20)

    assert list(range(16, 21)) == again.seen
    await again.stop()


async def test_an_error_of_the_read_ends_every_reader():
    transport = Counting()
    shared = SharedReading(transport)
    readers = [Follower(shared) for _ in range(2)]
    await say(transport, 1, 10)
    await asyncio.gather(*(reader.reach(10) for reader in readers))
    transport.events.clear()
    await transport.publish([])
    async with asyncio.timeout(10):
        errors = await asyncio.gather(*(r.task for r in readers), return_exceptions=True)

    assert [HistoryDivergedError] * 2 == [type(error) for error in errors]


async def test_who_was_further_than_the_stream_is_told_so_also_beside_another():
    transport = Counting()
    shared = SharedReading(transport)
    one = Follower(shared)
    await say(transport, 1, 10)
    await one.reach(10)
    ahead = Follower(shared, after=12)
    async with asyncio.timeout(10):
        (error,) = await asyncio.gather(ahead.task, return_exceptions=True)

    assert isinstance(error, HistoryDivergedError)
    await one.stop()


async def test_who_catches_up_waits_for_a_bus_that_is_away(few, monkeypatch):
    monkeypatch.setattr(sharing, "AGAIN_SECONDS", 0.0)
    transport = Counting()
    await say(transport, 1, 100)
    shared = SharedReading(transport)
    first = Follower(shared, after=99)
    await first.reach(100)
    transport.away = 3
    late = Follower(shared)
    await late.reach(100)

    assert list(range(1, 101)) == late.seen
    await late.stop()
    await first.stop()
