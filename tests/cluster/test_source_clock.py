"""A real API server's answers put a wrong clock right, and its bookmarks prove that a watch is alive."""

import asyncio

import pytest

from bus.clock import SECOND_US, ServerClock, SystemClock
from bus.events.observations import SourceHeard
from bus.kube.client import Access, connect
from bus.kube.watch.contract import ReflectorSettings
from bus.kube.watch.reflector import Reflector
from bus.memory import MemoryTransport
from bus.sources.catalogue import NAMESPACES, PODS

pytestmark = pytest.mark.kube

HOUR_US = 3_600 * SECOND_US


class Slow:
    """This machine's clock, an hour slow."""

    def now_us(self):
        """An hour ago."""
        return SystemClock().now_us() - HOUR_US


async def test_a_list_and_a_watch_measure_a_clock_that_is_an_hour_slow(plane):
    clock, transport = ServerClock(Slow()), MemoryTransport()
    cluster = await connect(Access(str(plane.kubeconfig)), clock=clock)
    reflector = Reflector(NAMESPACES, cluster, transport, cluster.clock)
    task = asyncio.create_task(reflector.run())
    async with asyncio.timeout(30):
        while not transport.events:
            await asyncio.sleep(0.05)
    now_us = SystemClock().now_us()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await cluster.close()

    assert all(abs(event.time_us - now_us) < 30 * SECOND_US for event in transport.events)
    assert abs(reflector.state.offset_us - HOUR_US) <= 2 * SECOND_US


@pytest.mark.slow
@pytest.mark.waits
async def test_a_quiet_watch_of_pods_says_about_once_a_minute_that_it_is_told(plane):
    transport = MemoryTransport()
    cluster = await connect(Access(str(plane.kubeconfig)))
    settings = ReflectorSettings(relist_seconds=3_600)
    reflector = Reflector(PODS, cluster, transport, cluster.clock, settings=settings)
    task = asyncio.create_task(reflector.run())
    async with asyncio.timeout(150):
        while not [e for e in transport.events if e.type == SourceHeard.wire_type]:
            await asyncio.sleep(0.5)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await cluster.close()
    beats = [e for e in transport.events if e.type == SourceHeard.wire_type]

    assert [SourceHeard.read(event).resource for event in beats] == ["pods"]
