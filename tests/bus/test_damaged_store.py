"""A server whose store is damaged at its end counts messages that it cannot read: every reader says so, and none waits for ever."""

import asyncio

import pytest

from bus.embedded import EmbeddedServer
from bus.envelope import Event
from bus.errors import HistoryDivergedError
from bus.jetstream import JetStream
from bus.streams import history
from tests.bus.damage import DAMAGES

pytestmark = pytest.mark.nats

COUNT = 20


def said(number):
    time_us = 1_700_000_000_000_000 + number
    return Event("c1", "pod.observed", f"p-{number}", f"uid-{number}/1", "watch", time_us, b"{}")


@pytest.fixture(params=DAMAGES.values(), ids=list(DAMAGES))
async def bus(request, tmp_path):
    """A transport to a server that was stopped, damaged, and started again."""
    for number in range(2):
        async with EmbeddedServer(tmp_path) as server:
            transport = await JetStream.connect(
                server.url, history(), credentials=server.credentials
            )
            if number:
                yield transport
            else:
                await transport.publish([said(n) for n in range(COUNT)])
            await transport.close()
        if not number:
            request.param(tmp_path)


@pytest.mark.parametrize("live", [True, False], ids=["live", "finite"])
async def test_a_reader_stops_where_the_streams_last_messages_are_damaged(bus, live):
    """Covers every reader: ledger, reactors and webhooks (live), recovery (finite). Each waited for ever."""
    assert (await bus.head()).last_sequence == COUNT
    found = []

    with pytest.raises(HistoryDivergedError, match="lost a message"):
        async with asyncio.timeout(30):
            async for events in bus.read(after=0, live=live):
                found += events

    assert 0 < len(found) < COUNT
    assert await bus.at(len(found) + 1) is None


async def test_a_reader_of_what_is_whole_goes_on_while_nothing_is_said(bus, monkeypatch):
    """The look below the end costs a healthy history nothing: what comes after a silence is read."""
    monkeypatch.setattr("bus.jetstream.reader.HEARTBEAT_SECONDS", 0.1)
    last = (await bus.publish([said(COUNT)]))[0]
    reading = bus.read(after=last - 1)
    first = await anext(reading)
    waiting = asyncio.create_task(anext(reading))
    await asyncio.sleep(1.0)
    await bus.publish([said(COUNT + 1)])

    assert [event.sequence for event in first + await waiting] == [last, last + 1]
    await reading.aclose()
