"""One process for each part of an installation, and one writer for one ledger: a lock that ends with its process.

SQLite: a locked file beside the database, with the holder's name in it. PostgreSQL: a lock of a session, so two machines cannot
write one ledger either. Only a role with write access can take it (:mod:`projections.engine.session_locks`).
PostgreSQL ends the session of a machine after 25 seconds of silence. A paused process keeps its session, since its
kernel answers. If the session ended all the same, :class:`HeldLock` stops the process before it goes on. For some seconds
such a process may still rely on its lock. So the next acting process waits as long before it writes to the cluster.

Source: docs/wrong-input.md; PostgreSQL, "Explicit Locking" and ``tcp_keepalives_idle``.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager, contextmanager
from pathlib import Path

import sqlalchemy as sa

from bus import private_files
from bus.waiting import beside
from deploy.errors import LedgerBusyError, LostLockError
from projections.engine.session_locks import lift_limits, lock, make_lockable

#: The parts of an installation with one process at a time: writing the ledger; deciding and acting.
LEDGER, ACTING = "ledger writer", "acting"
_SAID = {
    LEDGER: "Another process writes this ledger",
    ACTING: "Another process decides and acts by this ledger",
}

#: The PostgreSQL views of the locks.
_VIEWS = {LEDGER: "bursar_ledger_lock", ACTING: "bursar_acting_lock"}

#: Between two attempts to get a lock of another process, and between two checks of a lock of our own.
WAIT_SECONDS = 1.0
LOOK_SECONDS = 2.0
#: An attempt waits for so long.
_MOMENT_SECONDS = 0.2
#: For so long a lock is taken to be held after a look.
CONFIRMED_SECONDS = 5.0
#: Seconds before PostgreSQL ends the session of a silent machine, and the machine one of a silent server:
#: idle + interval * count.
_SILENCE = {"idle": 10, "interval": 5, "count": 3}
#: For so long the next acting process sends nothing: the one before may rely on its lock still, with a request under way.
HANDOVER_SECONDS = CONFIRMED_SECONDS + 5.0
#: Whole seconds for a connection.
_CONNECT_SECONDS = 10
#: Sessions of writing roles with an advisory lock; the view shows its key in two halves.
_WRITERS = """
SELECT count(*) FROM pg_locks AS l JOIN pg_stat_activity AS a USING (pid)
WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND (l.classid::bigint << 32 | l.objid::bigint) = %(key)s
  AND has_table_privilege(a.usesysid, to_regclass('events'), 'INSERT')
"""
_OPTIONS = {
    "connect_timeout": _CONNECT_SECONDS, "tcp_user_timeout": 20_000, "keepalives": 1,
    **{f"keepalives_{name}": value for name, value in _SILENCE.items()},
}  # fmt: skip


def _passed() -> float:
    """Seconds, including those of a suspended machine; on a system without such a clock, the usual one."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class HeldLock:
    """A lock of this process, and the last time at which it was confirmed."""

    def __init__(
        self,
        look: Callable[[], object],
        clock: Callable[[], float] = _passed,
        *,
        rest_seconds: float = 0.0,
    ) -> None:
        """``look`` raises SQLAlchemyError if the lock is lost. ``rest_seconds``: from now, nothing is confirmed for so long."""
        self._look, self._clock = look, clock
        self._known = clock()
        self._begins = self._known + rest_seconds
        #: A session answers one at a time.
        self._looking = asyncio.Lock()
        #: A lost lock stays lost: a reconnected database makes a new session silently, without a lock.
        self._is_lost = False

    async def confirm(self) -> None:
        """Return where the lock was held within :data:`CONFIRMED_SECONDS`, also after a pause. Raises LostLockError.

        Waits until the rest is over.
        """
        while (rest := self._begins - self._clock()) > 0:
            await asyncio.sleep(rest)
        if self._is_lost or self._clock() - self._known > CONFIRMED_SECONDS:
            await self.look()

    async def look(self) -> None:
        """Look whether the lock is held. Raises LostLockError."""
        async with self._looking:
            if self._is_lost:
                raise LostLockError(reason="it was lost before")
            began = self._clock()
            try:
                await asyncio.to_thread(self._look)
            except sa.exc.SQLAlchemyError as error:
                self._is_lost = True
                raise LostLockError(reason=type(error).__name__) from error
            self._known = began

    async def run(self) -> None:
        """Look again and again, until cancelled. Raises LostLockError."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            await self.look()


@asynccontextmanager
async def in_turn(
    url: str, engine: sa.Engine, purpose: str, part: str, tell: Callable[[str], None]
) -> AsyncIterator[HeldLock]:
    """Hold a part while the body runs; wait for it while another process has it. LostLockError ends the body where it is lost."""
    with ExitStack() as stack:
        waits = False
        while True:
            try:
                found = await _attempt(stack, writer_lock(url, engine, purpose, part))
                break
            except LedgerBusyError as error:
                if not waits:
                    tell(
                        f"waiting in reserve: takes over when {error.holder} ends; Ctrl-C ends the wait"
                    )
                waits = True
            await asyncio.sleep(WAIT_SECONDS)
        async with beside(found.run()):
            yield found


async def _attempt(stack: ExitStack, lock: AbstractContextManager[HeldLock]) -> HeldLock:
    """Enter the lock in a thread, so a silent database blocks nothing else. Raises LedgerBusyError."""
    attempt = asyncio.ensure_future(asyncio.to_thread(stack.enter_context, lock))
    try:
        return await asyncio.shield(attempt)
    except asyncio.CancelledError:
        # A lock taken meanwhile belongs to the stack, and the stack releases it.
        await asyncio.wait([attempt])
        attempt.exception()
        raise


@contextmanager
def writer_lock(
    url: str, engine: sa.Engine, purpose: str, part: str = LEDGER
) -> Iterator[HeldLock]:
    """Hold a part of an installation for one process. Raises LedgerBusyError at once where another has it."""
    if engine.dialect.name == "sqlite":
        name = "lock" if part == LEDGER else f"{part}.lock"
        with _file_lock(Path(f"{sa.make_url(url).database}.{name}"), purpose, part):
            # The kernel lets it go with the process, and not before.
            yield HeldLock(lambda: None)
    else:
        with _session_lock(engine, url, part) as look:
            yield HeldLock(look, rest_seconds=HANDOVER_SECONDS if part == ACTING else 0.0)


@contextmanager
def _file_lock(path: Path, purpose: str, part: str) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = private_files.descriptor(path)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 128, 0).decode("ascii", "replace").strip()
            raise LedgerBusyError(_SAID[part], holder=holder or "unknown") from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"bursar {purpose}, process {os.getpid()}".encode(), 0)
        yield
        os.ftruncate(descriptor, 0)
    finally:
        # The file stays: removing it would let two processes lock two files of one name.
        os.close(descriptor)


@contextmanager
def _session_lock(engine: sa.Engine, url: str, part: str) -> Iterator[Callable[[], object]]:
    """Yields a function to ask the session with the lock."""
    alone = sa.create_engine(
        engine.url,
        poolclass=sa.NullPool,
        connect_args=_OPTIONS,
        isolation_level="READ COMMITTED",
    )
    with alone.connect() as connection:
        with connection.begin():
            for name, value in _SILENCE.items():
                connection.exec_driver_sql(f"SET tcp_keepalives_{name} = {value}")
        lift_limits(connection)
        make_lockable(connection, _VIEWS[part])
        transaction = connection.begin()
        is_free = lock(connection, _VIEWS[part], seconds=_MOMENT_SECONDS)
        if not is_free or _older_holds(connection, part):
            holder = f"a session of the database {sa.make_url(url).database!r}"
            raise LedgerBusyError(_SAID[part], holder=holder)
        yield lambda: connection.scalar(sa.select(1))
        if not connection.invalidated:
            connection.exec_driver_sql("SELECT pg_advisory_unlock_all()")
        transaction.rollback()


def _older_holds(connection: sa.Connection, part: str) -> bool:
    """Whether a program older than these locks holds the part, by an advisory lock. This session takes a free one.

    A role without write access holds nothing by it.
    """
    digest = hashlib.sha256(f"bursar {part}".encode()).digest()
    key = int.from_bytes(digest[:8], "big", signed=True)
    if connection.scalar(sa.select(sa.func.pg_try_advisory_lock(key))):
        return False
    return bool(connection.exec_driver_sql(_WRITERS, {"key": key}).scalar())
