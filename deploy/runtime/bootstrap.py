"""The composition root: opens each adapter with its settings, in order, and closes all of them.

Each adapter is an (async) context manager, so all are closed in reverse order after any end. A ledger has one
writer. A second process (``bursar import`` beside ``bursar up``) publishes to the same bus and waits for that
writer to catch up.

Source: docs/architecture.md.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from signal import ITIMER_REAL, SIGHUP, SIGINT, SIGTERM, SIGUSR1, Signals, setitimer
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec
import uvloop

from bus import embedded
from bus.decoders import prepare
from bus.jetstream import GuardLine, JetStream, require_safe
from bus.sharing import SharedReading
from bus.streams import history
from bus.transport import Transport
from bus.waiting import beside, reached
from deploy.errors import StoppedError
from deploy.logs import follow, tell
from deploy.runtime.tasks import tasks
from deploy.settings.addresses import masked

if TYPE_CHECKING:
    from deploy.runtime.locking import HeldLock
    from deploy.settings.place import LedgerPlace
    from deploy.settings.shape import Settings
    from projections.engine.fill import Filled
    from projections.engine.store import Store

#: Between two looks at a ledger of another process.
LOOK_SECONDS = 0.1

#: Longest end in order after a signal.
END_SECONDS = 9.5

T = TypeVar("T")


# the bus


class Bus(msgspec.Struct, frozen=True):
    """An open bus. ``started``: whether its server runs for us and ends with us."""

    transport: JetStream
    #: The same with one live read, for followers of the history in this process.
    shared: SharedReading
    guard: list[GuardLine]
    monitor_urls: tuple[str, ...]
    url: str
    started: bool


@asynccontextmanager
async def bus(settings: Settings | LedgerPlace, *, is_checked: bool = True) -> AsyncIterator[Bus]:
    """The bus of the settings: an external server, the running embedded server, or one started now.

    Raises BusUnavailableError, PermissionDeniedError, BusTlsError, and UnsafeBusError unless ``is_checked`` is off.
    """
    async with AsyncExitStack() as stack:
        url, credentials = settings.bus.address
        monitor_urls, started = settings.bus.monitors, False
        if settings.bus.is_embedded:
            address = embedded.running(settings.data)
            if address is None:
                server = embedded.EmbeddedServer(settings.data, binary=settings.bus.server)
                await stack.enter_async_context(server)
                if await _compressed(server):
                    # The server reads the setting when it starts.
                    await server.stop()
                    await server.start()
                address, started = server.address, True
            url, credentials, monitor_urls = (
                address.url,
                address.credentials,
                (address.monitor_url,),
            )
        transport = await JetStream.connect(
            url,
            history(replicas=settings.bus.replicas),
            credentials=credentials,
            tls=settings.bus.tls,
        )
        stack.push_async_callback(transport.close)
        lines = await transport.guard(*monitor_urls)
        if is_checked:
            require_safe(lines)
        shared = SharedReading(transport)
        follow(lambda: max(shared.sequence, transport.sequence))
        yield Bus(transport, shared, lines, monitor_urls, masked(url), started)


async def _compressed(server: embedded.EmbeddedServer) -> bool:
    """Whether the stream of an earlier version was set to be compressed just now."""
    login = "recovery", server.address.recovery_password
    transport = await JetStream.connect(server.url, history(), credentials=login)
    try:
        return await transport.settle()
    finally:
        await transport.close()


# writing the ledger


class LedgerWriter(Protocol):
    """Moves the ledger on: this process or another."""

    #: Names the writer, for waiting processes.
    name: str

    async def run(self) -> None:
        """Until cancelled."""

    @property
    def sequence(self) -> int:
        """The last event in the ledger, as far as is known."""

    @property
    def filled(self) -> Filled | None:
        """The new or changed parts of the ledger in filling, with their
        progress. None if there are none, or another process fills."""

    @property
    def unsealed(self) -> str:
        """Why the history is not sealed; "" where it is, and where another process seals."""

    @property
    def signer(self) -> str:
        """The public key of signed heads; "" if another process signs."""


class OwnLedgerWriter:
    """This process writes the ledger, and signs its heads now and then."""

    name = "this process"

    def __init__(
        self, settings: Settings, store: Store, transport: Transport, lock: HeldLock | None = None
    ) -> None:
        """``lock``: its loss ends this writer. None: the caller checks it."""
        # A mere client of the bus need not import the writing code.
        from deploy.runtime.bus_trimming import BusTrimming
        from deploy.runtime.sealing import Anchoring, Sealing
        from projections.catalogue import MODEL
        from projections.engine.folder import Folder
        from projections.engine.heads import HeadKeeper, Signer
        from projections.engine.runner import Runner

        # Another thread writes the ledger.
        prepare()
        self._heads = HeadKeeper(store, Signer(settings.signing_key), settings.heads_file)
        self._lock = lock
        self._sealing, self._anchoring = Sealing(settings, store), Anchoring(settings, store)
        self._trimming = BusTrimming(settings, store)
        self._runner = Runner(
            store, Folder(MODEL, store), transport, committed=self._heads.committed
        )

    async def run(self) -> None:
        """Fold new events until cancelled, and sign the last head. Raises the runner's errors, and LostLockError."""
        try:
            async with AsyncExitStack() as stack:
                if self._lock is not None:
                    await stack.enter_async_context(beside(self._lock.run()))
                await stack.enter_async_context(beside(self._sealing.run()))
                await stack.enter_async_context(beside(self._anchoring.run()))
                await stack.enter_async_context(beside(self._trimming.run()))
                await self._runner.run()
        finally:
            self._heads.keep(self._runner.checkpoint)

    @property
    def sequence(self) -> int:
        """The last event in the ledger."""
        return self._runner.checkpoint.sequence

    @property
    def filled(self) -> Filled | None:
        """The parts of the ledger in filling, with their progress."""
        return self._runner.filled

    @property
    def unsealed(self) -> str:
        """Why the history is not sealed, its heads are not kept elsewhere, or the bus is not trimmed."""
        works = self._sealing, self._anchoring, self._trimming
        return "; ".join(work.trouble for work in works if work.trouble)

    @property
    def signer(self) -> str:
        """The public key of the heads, with a warning if the first head was signed by another key."""
        key, pinned = self._heads.public_key, self._heads.pinned()
        message = f"heads are signed by {key.hex()}: note it elsewhere, for `bursar verify --key`"
        if pinned in (b"", key):
            return message
        return f"{message}; this ledger's first head was signed by another key, {pinned.hex()}"


class OtherLedgerWriter:
    """Another process writes the ledger; this one looks how far it is."""

    signer = unsealed = ""
    filled = None

    def __init__(self, store: Store, name: str) -> None:
        from projections.catalogue import MODEL

        self.name = name
        self._store = store
        self._version = MODEL.version
        self.sequence = store.checkpoint(self._version).sequence

    async def run(self) -> None:
        """Look at it again and again, until cancelled."""
        while True:
            self.sequence = (
                await asyncio.to_thread(self._store.checkpoint, self._version)
            ).sequence
            await asyncio.sleep(LOOK_SECONDS)


def keeper(
    settings: Settings, store: Store, transport: Transport, held: HeldLock | str
) -> LedgerWriter:
    """The writer of this ledger: this process if it has the lock, or another process, by its name."""
    if isinstance(held, str):
        return OtherLedgerWriter(store, held)
    return OwnLedgerWriter(settings, store, transport, held)


async def reach(
    keeper: LedgerWriter, sequence: int, progress: Callable[[int], None] | None = None
) -> None:
    """Return when the ledger holds the event ``sequence``. Raises StalledError where it does not move for a minute."""
    await reached(
        lambda: keeper.sequence, sequence, f"the ledger, written by {keeper.name}", progress
    )


async def filled(keeper: LedgerWriter, progress: Callable[[int, int], None] | None = None) -> None:
    """Return when this process has filled its parts. A part of another
    process is not awaited. ``progress``: events done, of all."""
    while (found := keeper.filled) is not None:
        if progress is not None:
            progress(found.sequence, found.of)
        await asyncio.sleep(LOOK_SECONDS)


# the process


def run(work: Coroutine[Any, Any, T], *, has_threads: bool = True) -> T:
    """Run ``work`` to its end. SIGTERM and SIGINT cancel it, so all is
    closed in order. SIGUSR1 shows the waiting place of each task.
    ``has_threads`` off: no other thread decodes, so none needs preparation.

    Raises the first error of a group as itself, and StoppedError after a signal without a normal end of ``work``.
    """
    caught: list[Signals] = []

    async def main() -> T:
        loop = asyncio.get_running_loop()
        task = asyncio.current_task()
        assert task is not None

        def stop(signal: Signals) -> None:
            if caught:
                # On the second request it ends at once: every step may be broken off safely, as the crash tests show.
                os._exit(128 + signal)
            caught.append(signal)
            task.cancel()
            # The last resort if something hangs: the default action of this signal ends the process.
            setitimer(ITIMER_REAL, END_SECONDS)

        def show() -> None:
            if not tell(waiting := tasks()):
                print(waiting, file=sys.stderr, flush=True)

        for signal in (SIGTERM, SIGINT, SIGHUP):
            loop.add_signal_handler(signal, stop, signal)
        loop.add_signal_handler(SIGUSR1, show)
        return await work

    if has_threads:
        prepare()
    try:
        # The loop of the webhook's latency benchmarks.
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(main())
    except asyncio.CancelledError:
        raise StoppedError(signal=caught[0] if caught else SIGINT) from None
    except BaseExceptionGroup as group:
        raise first_error(group) from group
    finally:
        setitimer(ITIMER_REAL, 0)


def first_error(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first error of a group of tasks."""
    error = group.exceptions[0]
    return first_error(error) if isinstance(error, BaseExceptionGroup) else error
