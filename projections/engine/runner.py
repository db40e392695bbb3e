"""Reads the history after the ledger's checkpoint, folds it, and stores each batch in one transaction.

The bus is read on the event loop, folds and SQL run in one writer thread, so that the next batch arrives while the last one is
written. Nothing else writes the ledger.

Source: ``house.md`` sections 1, 3.9, 3.10 and 4.
"""

from __future__ import annotations

import asyncio
import gc
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Protocol

from bus.crashpoints import crashpoint
from bus.envelope import Event
from bus.errors import LedgerError, LedgerNewerError
from bus.transport import Transport
from projections.engine.checkpoint import Checkpoint, confirm
from projections.engine.store import Store

#: More than one parked event in a hundred, over this many: something is wrong with the events, not with one of them.
WATCHED = 1_000

Told = Callable[[Checkpoint], None]


class Foldable(Protocol):
    """What a runner folds with: :class:`projections.books.Books`."""

    def open(self) -> None:
        """Take in what is live."""

    def fold(self, events: Sequence[Event]) -> Any:
        """The changes of a batch."""

    def settle(self) -> None:
        """Let go of what is not needed any more."""


@contextmanager
def seldom_collecting() -> Iterator[None]:
    """Rarer garbage collection: rows make no cycles, and looking for some took 28 % of a rebuild's time."""
    before = gc.get_threshold()
    gc.set_threshold(100_000, 50, 100)
    try:
        yield
    finally:
        gc.set_threshold(*before)


class Runner:
    """Keeps one ledger at the end of one history. ``told`` is called on the writer thread after each batch."""

    def __init__(
        self,
        store: Store,
        books: Foldable,
        transport: Transport,
        version: str,
        *,
        batch: int = 1000,
        told: Told | None = None,
    ) -> None:
        self._store = store
        self._transport = transport
        self._books = books
        self._batch = batch
        self._told = told
        self._parked: deque[int] = deque(maxlen=WATCHED)
        self._writer = ThreadPoolExecutor(1, "ledger-writer")
        self.checkpoint = store.checkpoint(version)
        if self.checkpoint.version != version:
            raise LedgerError(
                "the ledger was written by other rules: run `bursar replay --swap`",
                ledger=self.checkpoint.version,
                program=version,
            )

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
        await loop.run_in_executor(self._writer, self._books.open)
        writing: asyncio.Future[None] | None = None
        try:
            async for events in self._transport.read(
                after=self.checkpoint.sequence, batch=self._batch, live=live
            ):
                crashpoint("runner.after_read")
                if writing is not None:
                    await writing
                writing = loop.run_in_executor(self._writer, self._write, events)
                if live:
                    # A live reader hands over what there is: wait, so that a failure shows at once.
                    await asyncio.shield(writing)
            if writing is not None:
                await writing
        finally:
            if writing is not None and not writing.done():
                await asyncio.wait([writing])
            self._writer.shutdown(wait=True)
        return self.checkpoint

    def _write(self, events: list[Event]) -> None:
        changes = self._books.fold(events)
        crashpoint("runner.after_fold")
        self.checkpoint = self._store.commit(events, changes, self.checkpoint)
        self._books.settle()
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
