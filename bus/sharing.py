"""Shares one live read of the history among all readers of a process.

Each reader asks for a live read from its own position. There is one read of the bus; every list of events goes to
all readers near its end, in order, and is decoded once. A reader far behind, at the start or as a slow one, first
reads the missing events by itself, and then joins. No reader waits for a slower one, and the events held for each
reader are bounded.

An error of the common read is raised to all of them.

Source: the ordered read of :mod:`bus.transport`; the watch cache of kube-apiserver parts with a slow watcher for
the same reason (k8s.io/apiserver, pkg/storage/cacher).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from bus.envelope import Event
from bus.errors import BusUnavailableError, HistoryDivergedError
from bus.transport import Expectation, Head, Transport
from bus.waiting import ended

#: Events held for one reader, and bytes of their bodies.
MOST = 10_000
MOST_BYTES = 16 * 1024 * 1024
#: Largest distance from the common read to join it.
NEAR = 1_000
#: Between two attempts while the bus is away, seconds.
AGAIN_SECONDS = 1.0

_log = logging.getLogger(__name__)


class SharedReading:
    """``transport`` with one shared live read. Fulfils :class:`bus.transport.Transport`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._readers: set[_Reader] = set()
        self._reading: asyncio.Task[None] | None = None
        #: The last event of the common read.
        self._sequence = 0
        self._room = asyncio.Event()

    @property
    def sequence(self) -> int:
        """The last event of the common read; 0 before there is one."""
        return self._sequence

    async def publish(
        self, events: Sequence[Event], *, expect: Expectation | None = None
    ) -> list[int]:
        """As the transport does it."""
        return await self._transport.publish(events, expect=expect)

    async def head(self) -> Head:
        """As the transport says it."""
        return await self._transport.head()

    async def at(self, sequence: int) -> Event | None:
        """As the transport says it."""
        return await self._transport.at(sequence)

    async def close(self) -> None:
        """As the transport does it."""
        await self._transport.close()

    async def read(
        self, *, after: int, batch: int = 1000, linger_seconds: float = 0.02, live: bool = True
    ) -> AsyncGenerator[list[Event], None]:
        """Events in order. See the contract."""
        if live:
            found = self._shared(after, batch, linger_seconds)
        else:
            found = self._alone(after, batch)
        async with aclosing(found) as batches:
            async for events in batches:
                yield events

    async def _alone(self, after: int, batch: int) -> AsyncGenerator[list[Event], None]:
        async for events in self._transport.read(after=after, batch=batch, live=False):
            yield events

    async def _shared(
        self, after: int, batch: int, linger_seconds: float
    ) -> AsyncGenerator[list[Event], None]:
        reader = _Reader(batch, linger_seconds, self._room)
        try:
            while True:
                async with aclosing(self._joining(reader, after, batch)) as missed:
                    async for events in missed:
                        after = events[-1].sequence
                        yield events
                async with aclosing(reader.batches(after)) as held:
                    async for events in held:
                        after = events[-1].sequence
                        yield events
        finally:
            self._readers.discard(reader)
            # The common read may wait for this one alone.
            self._room.set()
            if not self._readers and self._reading is not None:
                reading, self._reading = self._reading, None
                await ended(reading)

    async def _joining(
        self, reader: _Reader, after: int, batch: int
    ) -> AsyncGenerator[list[Event], None]:
        """The events already passed by the common read; at its end ``reader`` receives all new events."""
        while self._reading is not None and self._sequence - after > NEAR:
            async with aclosing(self._part(after, self._sequence, batch)) as missed:
                async for events in missed:
                    after = events[-1].sequence
                    yield events
        if self._reading is not None and self._sequence < after:
            await self._require(after)
        if self._reading is None:
            self._sequence = after
            self._reading = asyncio.create_task(self._read(after), name="history-reader")
        until = self._sequence
        reader.join()
        self._readers.add(reader)
        if after < until:
            async with aclosing(self._part(after, until, batch)) as missed:
                async for events in missed:
                    yield events

    async def _part(self, after: int, until: int, batch: int) -> AsyncGenerator[list[Event], None]:
        """The events after one sequence, up to another. Waits for a bus that is away, as every live read does."""
        while after < until:
            before = after
            try:
                async with aclosing(self._alone(after, batch)) as found:
                    async for events in found:
                        wanted = [event for event in events if event.sequence <= until]
                        if wanted:
                            after = wanted[-1].sequence
                            yield wanted
                        if after >= until:
                            return
            except BusUnavailableError as error:
                _log.warning("the history cannot be read now: %s", error)
                await asyncio.sleep(AGAIN_SECONDS)
                continue
            if after == before:
                raise HistoryDivergedError("the stream went back", read=until, last=after)

    async def _require(self, after: int) -> None:
        """Raises HistoryDivergedError if the stream ends before a position read earlier."""
        while True:
            try:
                last = (await self._transport.head()).last_sequence
            except BusUnavailableError as error:
                _log.warning("the history cannot be read now: %s", error)
                await asyncio.sleep(AGAIN_SECONDS)
                continue
            if last < after:
                raise HistoryDivergedError("the stream went back", read=after, last=last)
            return

    async def _read(self, after: int) -> None:
        """Deliver new events to all readers near the end."""
        try:
            async for events in self._transport.read(after=after, linger_seconds=0.0):
                self._sequence = events[-1].sequence
                for reader in self._readers:
                    reader.put(events)
                await self._paced()
        except Exception as error:
            self._reading = None
            for reader in self._readers:
                reader.part(error)
            self._readers.clear()

    async def _paced(self) -> None:
        """Return when a reader has room, and part with full readers by then."""
        while self._readers:
            full = {reader for reader in self._readers if reader.is_full}
            if len(full) < len(self._readers):
                self._readers -= full
                for reader in full:
                    reader.part()
                return
            self._room.clear()
            await self._room.wait()


class _Reader:
    """Events held for one reader. ``room`` is set when it took some."""

    def __init__(self, batch: int, linger_seconds: float, room: asyncio.Event) -> None:
        self._batch = batch
        self._linger_seconds = linger_seconds
        self._room = room
        self._events: list[Event] = []
        self._bytes = 0
        self._error: Exception | None = None
        self._is_joined = False
        self._filled = asyncio.Event()

    @property
    def is_full(self) -> bool:
        """Whether more is held for it than should be."""
        return len(self._events) >= MOST or self._bytes >= MOST_BYTES

    def join(self) -> None:
        """It receives all events from now on."""
        self._is_joined = True

    def put(self, events: Sequence[Event]) -> None:
        """Hold events for it."""
        self._events += events
        self._bytes += sum(len(event.body) for event in events)
        self._filled.set()

    def part(self, error: Exception | None = None) -> None:
        """It receives no more events: after the held ones, it has to read by itself, or to fail."""
        self._error, self._is_joined = error, False
        self._filled.set()

    async def batches(self, after: int) -> AsyncGenerator[list[Event], None]:
        """The held events after a sequence; ends when it has to read by itself."""
        while True:
            if not self._events:
                if self._error is not None:
                    raise self._error
                if not self._is_joined:
                    return
                self._filled.clear()
                await self._filled.wait()
                continue
            if self._linger_seconds and len(self._events) < self._batch:
                await asyncio.sleep(self._linger_seconds)
            events, self._events = self._events[: self._batch], self._events[self._batch :]
            self._bytes -= sum(len(event.body) for event in events)
            self._room.set()
            # Some of it may have been read by itself meanwhile, or before it joined.
            if events[0].sequence <= after:
                events = [event for event in events if event.sequence > after]
            if events:
                yield events
