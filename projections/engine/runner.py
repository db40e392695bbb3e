"""Reads the history after the ledger's checkpoint, folds it, and stores each batch in one transaction.

The bus is read on the event loop, folds and SQL run in one writer thread. What arrives while a batch is written is the next
batch: a quiet ledger commits each event at once, one that is behind commits ten thousand together, which costs a
fraction of the flushes and page writes. Nothing else writes the ledger.

Source: docs/architecture.md.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec

from bus.crashpoints import crashpoint
from bus.envelope import Event
from bus.errors import LedgerError, LedgerNewerError
from bus.transport import Transport
from bus.waiting import ended
from projections.engine.checkpoint import Checkpoint, confirm
from projections.engine.collecting import seldom_collecting
from projections.engine.fill import Fill, Filled, discard
from projections.engine.folder import Folder
from projections.engine.store import Store

#: More than one parked event in a hundred, over this many: something is wrong with the events, not with one of them.
WATCHED = 1_000

#: Batches of the reader that one transaction takes at most, and bytes of bodies, which bounds memory.
BATCHES = 30
MOST_BYTES = 48 * 1024 * 1024

#: After a full batch, how long more is gathered before the next transaction, how often it is looked
#: whether more came, and how many looks in a row without any end it.
GATHER_SECONDS = 3.0
GATHER_LOOKS = 60
STILL_LOOKS = 6

Told = Callable[[Checkpoint], None]


class Arrived:
    """What was read and is not written yet. Holds back its reader once it has ``most`` events, or enough bytes."""

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

    async def taken(self, *, gather: bool) -> list[Event]:
        """All there is, as soon as there is something; nothing after the end.

        With ``gather`` more is waited for while more comes, for three seconds at most.
        """
        while not self._events and not self._is_over:
            self._filled.clear()
            await self._filled.wait()
        if gather:
            await self._gathered()
        events, self._events, self._bytes = self._events, [], 0
        self._emptied.set()
        return events

    async def _gathered(self) -> None:
        """Return when it is full, when a while passed, or when nothing more comes."""
        seen = still = 0
        for _ in range(GATHER_LOOKS):
            still = still + 1 if len(self._events) == seen else 0
            if self._is_over or self._is_full() or still == STILL_LOOKS:
                break
            seen = len(self._events)
            await asyncio.sleep(GATHER_SECONDS / GATHER_LOOKS)

    def _is_full(self) -> bool:
        return len(self._events) >= self._most or self._bytes >= MOST_BYTES

    def end(self) -> None:
        """Nothing more comes."""
        self._is_over = True
        self._filled.set()


class Runner:
    """Keeps one ledger at the end of one history. ``told`` is called on the writer thread after each batch.

    ``batch`` events are read at once, and up to ``batches`` of these are stored in one transaction.
    """

    def __init__(
        self,
        store: Store,
        folder: Folder,
        transport: Transport,
        *,
        batch: int = 1000,
        batches: int = BATCHES,
        told: Told | None = None,
    ) -> None:
        self._store = store
        self._transport = transport
        self._folder = folder
        self._batch, self._batches = batch, batches
        self._told = told
        self._parked: deque[int] = deque(maxlen=WATCHED)
        self._writer = ThreadPoolExecutor(1, "ledger-writer")
        self.checkpoint = store.checkpoint(folder.model.version)
        self._model = folder.model
        missing = self._model.missing(self.checkpoint.version).parts
        #: Which parts of the model are being filled, and how far; None while all move together.
        self.filled: Filled | None = None
        if missing:
            self._folder = Folder(self._model.current(self.checkpoint.version), store)
            names = tuple(part.name for part in missing)
            self.filled = Filled(names, 0, self.checkpoint.sequence)

    async def run(self, *, live: bool = True) -> Checkpoint:
        """Fold until cancelled, or with ``live=False`` up to the end there is now; returns the checkpoint.

        Raises HistoryDivergedError when the stream is not the ledger's history, LedgerError when more than 1 % is
        parked, LedgerNewerError when an event of a newer version was parked (E2).
        """
        with seldom_collecting():
            return await self._run(live)

    async def _run(self, live: bool) -> Checkpoint:
        loop = asyncio.get_running_loop()
        self.checkpoint = await confirm(self.checkpoint, self._transport)
        await loop.run_in_executor(self._writer, self._open)
        arrived = Arrived(self._batch * self._batches)
        reading = asyncio.create_task(self._read(arrived, live), name="ledger-reader")
        filling = None if self.filled is None else self._filling(arrived)
        writing: asyncio.Future[None] | None = None
        try:
            events: list[Event] = []
            while events := await arrived.taken(gather=len(events) >= self._batch):
                crashpoint("runner.after_read")
                writing = loop.run_in_executor(self._writer, self._write, events)
                await asyncio.shield(writing)
            if filling is not None and (filling.done() or not live):
                await filling
            await reading
        finally:
            await ended(reading)
            if filling is not None:
                await ended(filling)
            if writing is not None and not writing.done():
                await asyncio.wait([writing])
            self._writer.shutdown(wait=True)
        return self.checkpoint

    async def _read(self, arrived: Arrived, live: bool) -> None:
        """Hand over what is read, until there is no more or no way."""
        after = self.checkpoint.sequence
        try:
            async for events in self._transport.read(after=after, batch=self._batch, live=live):
                await arrived.put(events)
        finally:
            arrived.end()

    def _open(self) -> None:
        if self.filled is None:
            discard(self._store)
        self._folder.open()

    def _filling(self, arrived: Arrived) -> asyncio.Task[None]:
        """Fill what the ledger lacks of the model. What goes wrong there ends the run."""
        task = asyncio.create_task(self._fill(), name="ledger-filler")

        def end(done: asyncio.Task[None]) -> None:
            if not done.cancelled() and done.exception() is not None:
                arrived.end()

        task.add_done_callback(end)
        return task

    async def _fill(self) -> None:
        loop = asyncio.get_running_loop()
        fill = await asyncio.to_thread(Fill, self._model, self._store)
        working: asyncio.Future[Any] | None = None
        try:
            is_near = False
            while not is_near:
                self.filled = fill.done
                working = loop.run_in_executor(None, fill.advance)
                is_near = await asyncio.shield(working)
            working = loop.run_in_executor(self._writer, self._join, fill)
            await asyncio.shield(working)
        finally:
            if working is not None and not working.done():
                await asyncio.wait([working])
            fill.close()

    def _join(self, fill: Fill) -> None:
        fill.join()
        folder = Folder(self._model, self._store)
        folder.open()
        self._folder, self.filled = folder, None
        self.checkpoint = msgspec.structs.replace(self.checkpoint, version=self._model.version)

    def _write(self, events: list[Event]) -> None:
        changes = self._folder.fold(events)
        crashpoint("runner.after_fold")
        self.checkpoint = self._store.commit(events, changes, self.checkpoint)
        self._folder.settle()
        if self._told is not None:
            self._told(self.checkpoint)
        newer = [parked.sequence for parked in changes.parked if parked.is_newer]
        if newer:
            raise LedgerNewerError(
                "an event is newer than this program and was parked: upgrade, then `bursar parked redrive`",
                sequence=newer[0],
            )
        poison = {parked.sequence for parked in changes.parked}
        self._parked.extend(int(event.sequence in poison) for event in events)
        if len(self._parked) == WATCHED and sum(self._parked) * 100 > WATCHED:
            raise LedgerError(
                "more than 1 % of the last events could not be read or folded: stopped",
                parked=sum(self._parked),
                of=WATCHED,
            )
