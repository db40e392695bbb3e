"""Fills the rows of new or changed parts of a model from the archive, beside the growing ledger.

A ledger's checkpoint has the version of each part. The runner folds the current ones; missing ones are filled from
the first event on in a place of its own (:mod:`projections.engine.beside`), with its own checkpoint there, by the
same folds. Current parts needed by them are folded beside it once more, since a derivation follows rows as they
change. When it has reached the ledger's end, the runner's thread takes in the last events between two batches, and
puts the rows in place and the versions into the checkpoint in one transaction: from then on all parts move
together.

It can be broken off anywhere. The place keeps its checkpoint with the rows, so the next process continues from
there; a place filled by other rules, or from another archive, is emptied first. A crash after the last transaction
leaves a useless place. The next process discards it.

**Until then the old rows stay.** They are whole as of the older program's last event, and views still answer from
them; ``bursar status`` names the parts being filled. Alternatives refused: empty views meanwhile would take a
working report away, and a column with a warning would change views with a fixed meaning. Answers name these parts,
with the last event in their rows (:mod:`projections.engine.adoption`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from bus.crashpoints import crashpoint
from bus.errors import LedgerError
from bus.waiting import whole
from projections.engine.adoption import adopted, release
from projections.engine.beside import Beside
from projections.engine.checkpoint import Checkpoint
from projections.engine.collecting import seldom_collecting
from projections.engine.dump import snapshot
from projections.engine.model import Model
from projections.engine.replay import Rebuilt, live_checkpoint
from projections.engine.segments.reading import with_links
from projections.engine.store import IN_MEMORY, LEDGER, Store
from projections.engine.tables import checkpoints, parked

#: Events of one step: a longer step would hold the ledger's write-ahead log.
STEP = 5_000


class Filled(msgspec.Struct, frozen=True):
    """The parts being filled, and their progress: the last event in them, of so many."""

    parts: tuple[str, ...]
    sequence: int
    of: int


class Fill:
    """The missing parts of ``model`` in ``live``, being filled. Not thread-safe."""

    def __init__(self, model: Model, live: Store) -> None:
        found = live.checkpoint(model.version)
        self._model = model
        self._missing = model.missing(found.version)
        self._until = found.sequence
        self._live = live
        self._beside = Beside(live, "fill", is_kept=True)
        self._rebuilt = self._open()

    def _open(self) -> Rebuilt:
        wanted = self._model.with_needs(self._missing)
        store = self._beside.made(wanted)
        found = store.checkpoint(wanted.version)
        if found.version != wanted.version or not self._is_of_archive(found):
            store.close()
            self._beside.discard()
            store = self._beside.made(wanted)
            found = store.checkpoint(wanted.version)
        return Rebuilt(wanted, self._live, store, found)

    def _is_of_archive(self, found: Checkpoint) -> bool:
        """Whether the archive has the same event at the checkpoint."""
        if found.sequence == 0:
            return True
        return [link for _, link in with_links(self._live.select, found.sequence, 1)] == [
            found.chain
        ]

    @property
    def done(self) -> Filled:
        """How far it is."""
        names = tuple(part.name for part in self._missing.parts)
        return Filled(names, self._rebuilt.checkpoint.sequence, self._until)

    def advance(self) -> bool:
        """Fill one step more; whether the rest is small enough to join."""
        with snapshot(self._live) as connection:
            self._rebuilt.advance(connection, most=STEP)
            self._until = live_checkpoint(connection).sequence
        return self._until == self._rebuilt.checkpoint.sequence

    def join(self) -> None:
        """Put the rows in place, and say so in the ledger's checkpoint. Nobody else may write the ledger meanwhile."""
        with snapshot(self._live) as connection:
            moved = self._rebuilt.advance(connection)
        self._rebuilt.close()
        with self._beside.writing() as connection:
            if live_checkpoint(connection).sequence != moved.sequence:
                raise LedgerError("the ledger moved on while filled rows were put in place")
            crashpoint("fill.before_join")
            self._beside.put(connection, self._missing.tables)
            release(connection)
            self._beside.add(connection, parked)
            connection.execute(
                checkpoints.update()
                .where(checkpoints.c.name == LEDGER)
                .values(version=self._model.version)
            )
        crashpoint("fill.after_join")
        self._beside.discard()

    def close(self) -> None:
        """Let go of the place; its rows stay."""
        self._rebuilt.close()


async def fill_ledger(model: Model, live: Store, progress: Callable[[int, int], None]) -> None:
    """Fill the missing parts of ``model`` in a ledger. A cancellation waits for a step, and the next fill goes on
    from there.

    ``progress``: filled events and their total. This process alone may write the ledger, and runs no runner.
    """
    with seldom_collecting():
        checkpoint = await whole(asyncio.to_thread(adopted, live, model))
        if not model.missing(checkpoint.version).parts:
            discard(live)
            return
        fill = await whole(asyncio.to_thread(Fill, model, live))
        try:
            while not await whole(asyncio.to_thread(fill.advance)):
                progress(fill.done.sequence, fill.done.of)
            await whole(asyncio.to_thread(fill.join))
        finally:
            fill.close()


def discard(live: Store) -> None:
    """Delete the place left by a crash after the last transaction."""
    if live.engine.url.database not in IN_MEMORY:
        Beside(live, "fill").discard()
