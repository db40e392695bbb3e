"""Waits that end: lost cancellations, standstills, and the same on a real server."""

import asyncio

import pytest

from bus import waiting
from bus.embedded import EmbeddedServer
from bus.errors import StalledError
from bus.jetstream import JetStream
from bus.streams import history


async def deaf(times=1):
    """Work that passes over the first cancellations, as nats-py's flush and Python 3.11's wait_for do."""
    for _ in range(times):
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            pass
    return "done"


async def test_a_cancellation_that_a_library_passes_over_is_heeded():
    task = asyncio.create_task(waiting.heeded(deaf()))
    await asyncio.sleep(0)
    task.cancel()

    async with asyncio.timeout(5):
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_a_library_that_fails_because_it_was_cancelled_does_not_hide_that():
    async def fails():
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            raise OSError("closed") from None

    task = asyncio.create_task(waiting.heeded(fails()))
    await asyncio.sleep(0)
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_time_limit_around_a_deaf_library_stays_a_time_limit():
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await waiting.heeded(deaf())


async def test_a_task_that_lost_its_cancellation_is_ended_all_the_same(monkeypatch):
    monkeypatch.setattr(waiting, "PATIENCE_SECONDS", 0.01)
    task = asyncio.create_task(deaf(times=3))
    await asyncio.sleep(0)

    async with asyncio.timeout(5):
        await waiting.ended(task)

    assert task.done()


async def test_what_stands_still_is_said_and_a_long_way_is_no_standstill(monkeypatch):
    monkeypatch.setattr(waiting, "STALL_SECONDS", 0.1)
    monkeypatch.setattr(waiting, "LOOK_SECONDS", 0.01)
    steps = iter(range(1, 1000))
    await waiting.reached(lambda: next(steps), 50, "the ledger")

    async with asyncio.timeout(5):
        with pytest.raises(StalledError, match=r"waited_for='the ledger' goal=9 at=7"):
            await waiting.reached(lambda: 7, 9, "the ledger")


@pytest.mark.nats
async def test_a_request_whose_answer_comes_with_its_cancellation_ends_its_task(tmp_path):
    """The cause of imports and `up --once` that never ended: the cancelled runner went on reading.

    It is the same for every call of the adapter, since all of them end in nats-py's wait_for or flush.
    """
    async with EmbeddedServer(tmp_path) as server:
        bus = await JetStream.connect(server.url, history(), credentials=server.credentials)
        try:
            await bus.head()
            task = asyncio.create_task(bus.head())
            client = bus._connection._client

            class Answers(dict):
                def get(self, token, default=None):
                    # The answer is here: what is scheduled now runs before the asker wakes.
                    asyncio.get_running_loop().call_soon(task.cancel)
                    return super().get(token, default)

            client._resp_map = Answers(client._resp_map)
            async with asyncio.timeout(10):
                with pytest.raises(asyncio.CancelledError):
                    await task
        finally:
            await bus.close()
