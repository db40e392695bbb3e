"""ADAPTER: a reader's state at any sequence, from the nearest snapshot and the archive after it; and writing snapshots.

The process that writes the ledger writes a snapshot after many events since the newest one, and at its own end.
Decisions wait only while the state is encoded; compressing and storing run beside. Writing takes at most a twentieth of the
time, however large the state is.

Source: docs/architecture.md (snapshots).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec
import sqlalchemy as sa

from bus.errors import EnvelopeError
from projections.engine.snapshots import Reader, last, states, write
from projections.engine.store import Store
from projections.engine.tables import checkpoints
from projections.quota_trees.queries import Select, archived
from reactors.engine.contract import Reactor
from reactors.engine.replica import Replica

if TYPE_CHECKING:
    from projections.engine.heads import Signer

#: Events between two snapshots: the next start reads no more than these, a second or so.
EVERY = 10_000
#: The rest after a snapshot, as a multiple of the time to write it.
PAUSE = 20
#: At the end, the longest wait for the ledger to store the read events.
END_SECONDS = 2.0
#: Longest wait for the ledger to store it; then the next one comes.
STORED_SECONDS = 60.0
#: Between two looks whether it did.
LOOK_SECONDS = 0.1

#: Errors of a snapshot with the right digest and the wrong content.
WRONG = (ValueError, KeyError, TypeError, AssertionError)

_log = logging.getLogger(__name__)


class Knows(Protocol):
    """A fold of one cluster's history that can be saved and restored: see :class:`projections.engine.parts.Part`."""

    @property
    def name(self) -> str:
        """Tells its snapshots from those of others."""

    @property
    def cluster(self) -> str:
        """The followed cluster."""

    @property
    def version(self) -> str:
        """The version of its rules and of its shape."""

    @property
    def sequence(self) -> int:
        """The newest folded event."""

    @property
    def is_pure(self) -> bool:
        """Whether it is the fold of the history up to its sequence, and nothing else."""

    @property
    def Saved(self) -> type[msgspec.Struct]:  # noqa: N802
        """The shape of its snapshot."""

    def saved(self) -> Any:
        """The content of its snapshot."""

    def restore(self, saved: Any) -> None:
        """Load a snapshot."""


K = TypeVar("K", bound=Knows)


def last_archived(select: Select) -> int:
    """The last event in the ledger."""
    return max((row[0] for row in select(sa.select(checkpoints.c.sequence))), default=0)


def at(
    select: Select,
    reactors: Sequence[Reactor],
    cluster: str,
    sequence: int | None = None,
    keys: Collection[bytes] = (),
) -> Replica:
    """The replica of ``cluster`` after the event ``sequence``; None = after the last one in the ledger.

    ``keys``: see :func:`projections.engine.snapshots.states`.
    """
    moved = last_archived(select)
    until = moved if sequence is None else min(sequence, moved)
    replica = restored(select, lambda: Replica(reactors, cluster), until, keys)
    after = replica.sequence
    for events in archived(select, cluster, replica.reads, after=after, until=until, apart=False):
        for event in events:
            try:
                replica.apply(event)
            except EnvelopeError:
                # As live readers do: the ledger counts parked events.
                continue
    replica.sequence = until
    return replica


def restored(select: Select, make: Callable[[], K], until: int, keys: Collection[bytes] = ()) -> K:
    """The state from the newest correct snapshot up to ``until``; without one, the result of ``make``."""
    found = make()
    for state in states(select, reader_of(found), until, keys):
        try:
            found.restore(msgspec.msgpack.decode(state, type=found.Saved))
            return found
        except WRONG as error:
            _log.warning("a snapshot cannot be read and is passed over: %s", error)
            found = make()
    return found


def reader_of(knows: Knows) -> Reader:
    """The snapshot name of a reader."""
    return Reader(knows.name, knows.cluster, knows.version)


class Snapshots:
    """Writes snapshots of one reader's state into the ledger, sealed by ``signer``."""

    def __init__(self, store: Store, knows: Knows, signer: Signer | None = None) -> None:
        self._store = store
        self._seal = signer.seal if signer is not None else None
        self._knows = knows
        self._reader = reader_of(knows)
        #: The newest snapshot, written or in progress.
        self._sequence = last(store.select, self._reader)
        self._not_before = 0.0
        self._writing: asyncio.Task[None] | None = None

    def offer(self) -> None:
        """Write one if it is time for it. Call it between two events."""
        is_busy = self._writing is not None and not self._writing.done()
        if is_busy or self._knows.sequence < self._sequence + EVERY:
            return
        if self._knows.is_pure and time.monotonic() >= self._not_before:
            self._writing = asyncio.create_task(self._write(), name="snapshot-writer")

    async def end(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
    ) -> None:
        """Write the last one, if the ledger has stored all read events
        by now. After an ``error`` the state may be no pure fold."""
        if error is not None and not isinstance(error, asyncio.CancelledError):
            return
        try:
            async with asyncio.timeout(END_SECONDS):
                if self._writing is not None:
                    await self._writing
                if self._knows.is_pure and self._knows.sequence > self._sequence:
                    await self._write()
        except TimeoutError:
            _log.info("no snapshot at the end: the ledger has not stored yet what was read")

    async def _write(self) -> None:
        sequence = self._sequence = self._knows.sequence
        began = time.monotonic()
        try:
            state = msgspec.msgpack.encode(self._knows.saved())
        except OverflowError as error:
            _log.error("no snapshot: an amount is above what one holds: %s", error)
            return
        seconds = time.monotonic() - began
        ends = began + STORED_SECONDS
        while True:
            began = time.monotonic()
            try:
                done = await asyncio.to_thread(
                    write, self._store, self._reader, sequence, state, self._seal
                )
            except sa.exc.SQLAlchemyError as error:
                # A ledger without write access ends its writer; a missing snapshot alone does no harm.
                _log.warning("a snapshot could not be written: %s", error)
                return
            if done or began > ends:
                break
            await asyncio.sleep(LOOK_SECONDS)
        seconds += time.monotonic() - began
        self._not_before = time.monotonic() + PAUSE * seconds
