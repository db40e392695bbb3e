"""Reads the history after the ledger's checkpoint, folds it, and stores each batch in one transaction.

The bus is read on the event loop, folds and SQL run in one writer thread. A quiet ledger commits each event at
once. A busy one commits ten times a second, and one far behind folds its input and commits tens of thousands
together: larger transactions cost a fraction of the flushes and page writes. Nothing else writes archive, rows and
checkpoint; heads and snapshots are written beside them, each in a transaction of its own.

Source: docs/architecture.md.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from typing import Any

import msgspec

from bus.crashpoints import crashpoint
from bus.envelope import Event
from bus.errors import LedgerError, LedgerNewerError
from bus.transport import Transport
from bus.waiting import ended, whole
from projections.engine.adoption import adopted
from projections.engine.changes import Changes
from projections.engine.checkpoint import Checkpoint, confirm
from projections.engine.collecting import often_switching, seldom_collecting
from projections.engine.fill import Fill, Filled, discard
from projections.engine.folder import Folder
from projections.engine.segments.reading import sealed_until
from projections.engine.store import Store

#: More than one parked event in a hundred, over this many: something is wrong with the events, not with one of them.
WATCHED = 1_000

#: Batches of the reader until a transaction ends, and bytes of bodies. A third of each is read ahead: this bounds
#: memory.
BATCHES = 30
MOST_BYTES = 48 * 1024 * 1024

#: From one transaction to the next. A thousand events a second in fifty transactions cost half as much again.
PACE_SECONDS = 0.1
#: After a full batch, how long a transaction takes in more, and how long it waits for the next batch.
GATHER_SECONDS = 3.0
STILL_SECONDS = 0.3

Committed = Callable[[Checkpoint], None]


class Arrived:
    """Events read and not folded yet. Holds back its reader once it has ``most`` events, or enough bytes."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._events: list[Event] = []
        self._bytes = 0
        self._is_over = False
        self._filled, self._emptied = asyncio.Event(), asyncio.Event()

    async def put(self, events: Sequence[Event]) -> None:
        """Add events; returns when there is room for more."""
        self._events += events
        self._bytes += sum(len(event.body) for event in events)
        self._filled.set()
        while self._is_full():
            self._emptied.clear()
            await self._emptied.wait()

    async def filled(self, least: int = 1, seconds: float | None = None) -> bool:
        """Return when ``least`` events are there, or no more can come, or the time is over; whether there are any."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while len(self._events) < least and not self._is_over and not self._is_full():
                    self._filled.clear()
                    await self._filled.wait()
        return bool(self._events)

    def taken(self) -> list[Event]:
        """All there is."""
        events, self._events, self._bytes = self._events, [], 0
        self._emptied.set()
        return events

    def _is_full(self) -> bool:
        return len(self._events) >= self._most or self._bytes >= MOST_BYTES // 3

    def end(self) -> None:
        """Nothing more comes."""
        self._is_over = True
        self._filled.set()


class Runner:
    """Keeps one ledger at the end of one history. ``committed`` is called on the writer thread after each batch.

    ``batch`` events are read at once, and about ``batches`` of these at most are stored in one transaction.
    """

    def __init__(
        self,
        store: Store,
        folder: Folder,
        transport: Transport,
        *,
        batch: int = 1000,
        batches: int = BATCHES,
        committed: Committed | None = None,
    ) -> None:
        self._store = store
        self._transport = transport
        self._folder = folder
        self._batch, self._batches = batch, batches
        self._committed = committed
        self._parked: deque[int] = deque(maxlen=WATCHED)
        self._writer = ThreadPoolExecutor(1, "ledger-writer")
        #: The writer thread's current or last activity.
        self._working: asyncio.Future[None] | None = None
        #: Events of the open transaction, in the folded parts.
        self._folded: list[Event] = []
        self.checkpoint = adopted(store, folder.model)
        self._model = folder.model
        missing = self._model.missing(self.checkpoint.version).parts
        #: The parts of the model being filled, and their progress; None while all move together.
        self.filled: Filled | None = None
        if missing:
            self._folder = Folder(self._model.current(self.checkpoint.version), store)
            names = tuple(part.name for part in missing)
            self.filled = Filled(names, 0, self.checkpoint.sequence)

    async def run(self, *, live: bool = True) -> Checkpoint:
        """Fold until cancelled, or with ``live=False`` up to the end there is now; returns the checkpoint.

        Raises HistoryDivergedError when the stream is not the ledger's history, LedgerError when more than 1 % of known
        types is parked, LedgerNewerError when an event of a newer version was parked (E2).
        """
        with seldom_collecting(), often_switching() if live else nullcontext():
            return await self._run(live)

    async def _run(self, live: bool) -> Checkpoint:
        sealed = sealed_until(self._store.select)
        self.checkpoint = await confirm(self.checkpoint, self._transport, sealed)
        await self._on_writer(self._open)
        arrived = Arrived(max(1, self._batch * self._batches // 3))
        reading = asyncio.create_task(self._read(arrived, live), name="ledger-reader")
        filling = None if self.filled is None else self._filling(arrived)
        try:
            loop = asyncio.get_running_loop()
            next_at = loop.time()
            while await arrived.filled():
                await arrived.filled(self._batch, next_at - loop.time())
                next_at = loop.time() + PACE_SECONDS
                await self._transaction(arrived)
            if filling is not None and (filling.done() or not live):
                await filling
            await reading
        finally:
            await ended(reading)
            if filling is not None:
                await ended(filling)
            if self._working is not None and not self._working.done():
                await asyncio.wait([self._working])
            self._writer.shutdown(wait=True)
        return self.checkpoint

    async def _read(self, arrived: Arrived, live: bool) -> None:
        """Deliver the events read, until there is no more or no way."""
        after = self.checkpoint.sequence
        try:
            reading = self._transport.read(
                after=after, batch=self._batch, linger_seconds=0.0, live=live
            )
            async for events in reading:
                await arrived.put(events)
        finally:
            arrived.end()

    async def _transaction(self, arrived: Arrived) -> None:
        """Fold and store the arrived events, and for full batches the following ones, for three seconds at most."""
        loop = asyncio.get_running_loop()
        until, room, size = loop.time() + GATHER_SECONDS, self._batch * self._batches, 0
        while events := arrived.taken():
            crashpoint("runner.after_read")
            await self._on_writer(self._fold, events)
            room -= len(events)
            size += sum(len(event.body) for event in events)
            left = until - loop.time()
            is_full = room < self._batch or size >= MOST_BYTES // 3 * 2
            if len(events) < self._batch or is_full or left <= 0:
                break
            await arrived.filled(self._batch, min(STILL_SECONDS, left))
        await self._on_writer(self._store_folded)

    async def _on_writer(self, work: Callable[..., None], *args: Any) -> None:
        """Run on the writer thread. Started work is always finished."""
        loop = asyncio.get_running_loop()
        self._working = loop.run_in_executor(self._writer, work, *args)
        await asyncio.shield(self._working)

    def _open(self) -> None:
        if self.filled is None:
            discard(self._store)
        self._folder.open()

    def _filling(self, arrived: Arrived) -> asyncio.Task[None]:
        """Fill the missing parts of the model. An error there ends the run."""
        task = asyncio.create_task(self._fill(), name="ledger-filler")

        def end(done: asyncio.Task[None]) -> None:
            if not done.cancelled() and done.exception() is not None:
                arrived.end()

        task.add_done_callback(end)
        return task

    async def _fill(self) -> None:
        loop = asyncio.get_running_loop()
        fill = await asyncio.to_thread(Fill, self._model, self._store)
        try:
            self.filled = fill.done
            while not await whole(asyncio.to_thread(fill.advance)):
                self.filled = fill.done
            await whole(loop.run_in_executor(self._writer, self._join, fill))
        finally:
            fill.close()

    def _join(self, fill: Fill) -> None:
        self._store_folded()
        fill.join()
        folder = Folder(self._model, self._store)
        folder.open()
        self.checkpoint = msgspec.structs.replace(self.checkpoint, version=self._model.version)
        self._folder, self.filled = folder, None

    def _fold(self, events: list[Event]) -> None:
        self._folder.apply(events)
        self._folded += events

    def _store_folded(self) -> None:
        events, self._folded = self._folded, []
        if not events:
            return
        changes = self._folder.changes()
        crashpoint("runner.after_fold")
        self.checkpoint = self._store.commit(events, changes, self.checkpoint)
        self._folder.settle()
        if self._committed is not None:
            self._committed(self.checkpoint)
        self._watch(events, changes)

    def _watch(self, events: list[Event], changes: Changes) -> None:
        """Raise if a parked event forbids to go on."""
        newer = [parked.sequence for parked in changes.parked if parked.is_newer]
        if newer:
            raise LedgerNewerError(
                "an event is newer than this program and was parked: upgrade, and the newer program folds it",
                sequence=newer[0],
            )
        poison = {parked.sequence for parked in changes.parked if not parked.is_unknown}
        self._parked.extend(int(event.sequence in poison) for event in events)
        if len(self._parked) == WATCHED and sum(self._parked) * 100 > WATCHED:
            raise LedgerError(
                "more than 1 % of the last events could not be read or folded: stopped",
                parked=sum(self._parked),
                of=WATCHED,
            )
