"""A whole Bursar in the test's own process: watchers, a real bus, a ledger; and what the ledger says, as plain values.

Between watcher and API server stands a :class:`Tap`: it notes when each version of each object arrived, which is the
moment that counts by docs/accounting.md ("the time at which the source received it"), it tells the watcher that time,
and it can cut the wire.
"""

import asyncio
import contextlib
import datetime
import json
from pathlib import Path

import msgspec
import sqlalchemy as sa

from bus.clock import SystemClock
from bus.embedded import EmbeddedServer
from bus.errors import ClusterUnavailableError
from bus.jetstream import JetStream
from bus.kube.client import Access, connect
from bus.kube.watch.contract import ReflectorSettings
from bus.kube.watch.reflector import Reflector
from bus.sources.catalogue import PODS, SOURCES
from bus.streams import history
from migrations.schema import upgrade
from projections.accounts import accounts
from projections.catalogue import MODEL
from projections.engine.folder import Folder
from projections.engine.runner import Runner
from projections.engine.store import Store, engine
from projections.engine.tables import events, parked

SECOND_US = 1_000_000
#: Those of a cluster without custom kinds.
BUILT_IN = tuple(source for source in SOURCES if not source.is_optional)

QUICK = ReflectorSettings(
    linger_seconds=0.0, apart_seconds=0.0, wait_seconds=0.05, longest_wait_seconds=0.5
)


def second(stamp):
    """Seconds of a stamp as the API server writes it, read without Bursar."""
    return int(datetime.datetime.strptime(f"{stamp}+0000", "%Y-%m-%dT%H:%M:%SZ%z").timestamp())


class SetClock:
    """Shows the second that a test sets, and a microsecond more each time, so that no two moments are equal."""

    def __init__(self, second):
        self.set(second)

    def set(self, second):
        """Show this second from now on."""
        self.us = second * SECOND_US

    def now_us(self):
        """The next microsecond."""
        self.us += 1
        return self.us


class Tap:
    """The wire of one watcher to its API server, and its clock.

    `arrivals`: uid and resourceVersion to the microsecond of the first arrival. A cut wire answers nothing: what is
    asked fails, and what is being watched ends. `inner` may be replaced, as when a cluster moved to another address.
    """

    def __init__(self, inner, clock=None):
        self.inner = inner
        self.arrivals = {}
        self._clock = clock or SystemClock()
        self._arrived_us = None
        self._cut = asyncio.Event()

    def now_us(self):
        """When the last chunk arrived, to who asks first; the time of the clock to all others."""
        arrived_us, self._arrived_us = self._arrived_us, None
        return self._clock.now_us() if arrived_us is None else arrived_us

    def cut(self):
        """Nothing passes from now on, until :meth:`mend`."""
        self._cut.set()

    def mend(self):
        """Everything passes again."""
        self._cut.clear()

    async def page(self, path, **options):
        """A page of the inner cluster."""
        if self._cut.is_set():
            raise ClusterUnavailableError(delay_seconds=0)
        page = await self.inner.page(path, **options)
        # Metadata alone shows no version of an object.
        is_lean = options.get("metadata_only")
        self._note(() if is_lean else [json.loads(item) for item in page.items])
        return page

    async def watch(self, path, *, version):
        """The chunks of the inner cluster's watch."""
        cut = asyncio.ensure_future(self._cut.wait())
        chunks = self.inner.watch(path, version=version)
        try:
            while True:
                following = asyncio.ensure_future(anext(chunks, None))
                await self._either(following, cut)
                chunk = following.result()
                if chunk is None:
                    return
                self._note(json.loads(line)["object"] for line in filter(None, chunk))
                yield chunk
        finally:
            cut.cancel()
            await chunks.aclose()

    async def _either(self, following, cut):
        try:
            await asyncio.wait((following, cut), return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not following.done():
                following.cancel()
                await asyncio.wait((following,))
        if cut.done():
            raise ClusterUnavailableError(delay_seconds=0)

    def _note(self, things):
        self._arrived_us = self._clock.now_us()
        for thing in things:
            metadata = thing.get("metadata", {})
            key = metadata.get("uid"), metadata.get("resourceVersion")
            self.arrivals.setdefault(key, self._arrived_us)


class Watcher:
    """One set of reflectors on one API server, with a tap each. `name` is part of the source of what it says."""

    def __init__(self, name=""):
        self.name = name
        self.taps, self.reflectors, self.clusters = {}, {}, []
        self._tasks = []

    async def start(self, plane, transport, *, sources=BUILT_IN, clock=None, settings=QUICK):
        """Follow `plane`; returns when each source has listed."""
        for source in sources:
            inner = await connect(Access(str(plane.kubeconfig)))
            self.clusters.append(inner)
            tap = self.taps[source.name] = Tap(inner, clock)
            named = msgspec.structs.replace(source, name=f"{source.name}{self.name}")
            reflector = Reflector(named, tap, transport, tap, settings=settings)
            self.reflectors[source.name] = reflector
            self._tasks.append(asyncio.create_task(reflector.run()))
        await self.until(lambda: all(r.state.listed_us for r in self.reflectors.values()))
        return self

    @property
    def pods(self):
        """The reflector of pods."""
        return self.reflectors["pods"]

    async def moved(self, plane):
        """Go on with the API server that `plane` is now."""
        for tap in self.taps.values():
            tap.inner = await connect(Access(str(plane.kubeconfig)))
            self.clusters.append(tap.inner)
            tap.cut()
            await asyncio.sleep(0.05)
            tap.mend()

    async def until(self, probe, seconds=60.0):
        """Wait until `probe()` holds; a reflector's own error comes first."""
        async with asyncio.timeout(seconds):
            while not probe():
                for task in self._tasks:
                    if task.done():
                        task.result()
                await asyncio.sleep(0.01)

    async def stop(self):
        """Watch no more, and let go of all connections."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for cluster in self.clusters:
            await cluster.close()
        self._tasks, self.clusters = [], []


class Bookkeeping:
    """A bus and a ledger below one folder, and the runner between them."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.watchers = []

    async def __aenter__(self):
        async with contextlib.AsyncExitStack() as stack:
            server = await stack.enter_async_context(EmbeddedServer(self.folder))
            self.transport = await JetStream.connect(
                server.url, history(), credentials=server.credentials
            )
            stack.push_async_callback(self.transport.close)
            made = engine(f"sqlite:///{self.folder / 'ledger.db'}")
            upgrade(made)
            self.store = Store(made)
            stack.callback(self.store.close)
            self.runner = Runner(self.store, Folder(MODEL, self.store), self.transport)
            self._running = asyncio.create_task(self.runner.run())
            stack.push_async_callback(self._end)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *_):
        await self._stack.aclose()

    async def _end(self):
        for watcher in self.watchers:
            await watcher.stop()
        self._running.cancel()
        await asyncio.gather(self._running, return_exceptions=True)

    async def watch(self, plane, name="", **options):
        """A new watcher that has listed already."""
        watcher = Watcher(name)
        self.watchers.append(watcher)
        return await watcher.start(plane, self.transport, **options)

    async def settled(self):
        """Return when everything that was said up to now is in the ledger."""
        last = (await self.transport.head()).last_sequence
        async with asyncio.timeout(60):
            while self.runner.checkpoint.sequence < last:
                if self._running.done():
                    self._running.result()
                await asyncio.sleep(0.01)

    async def until(self, probe, seconds=60.0):
        """Wait until `probe(self)` holds of the settled ledger."""
        async with asyncio.timeout(seconds):
            while not probe(self):
                await self.settled()
                await asyncio.sleep(0.02)

    def accounts(self, as_of_s=2**33):
        """What the ledger says of each pod, by uid; open ones valued at `as_of_s`."""
        return {one.uid: one for one in accounts(self.store.select, as_of_s=as_of_s)}

    def row(self, uid, as_of_s=2**33):
        """One pod in short: (waiting, held intervals with cpu and team, unknown, open, flags); None where it is not."""
        found = self.accounts(as_of_s).get(uid)
        return found and (
            found.waiting_s,
            [(h.start_s, h.end_s, h.cpu_milli, h.team) for h in found.holdings],
            found.unknown_s,
            found.is_open,
            found.flags,
        )

    def parked(self):
        """What could not be folded."""
        return self.store.select(sa.select(parked))

    def said_by(self):
        """Which source each event came from, by its id; the bus keeps the first of two."""
        rows = self.store.select(sa.select(events.c.id, events.c.source))
        ids = [row[0] for row in rows]
        assert len(ids) == len(set(ids)), "an event was stored twice"
        return dict(rows)


def pods_of(namespace):
    """The source of pods, of one namespace only: of a control plane that others use too."""
    return msgspec.structs.replace(PODS, path=f"/api/v1/namespaces/{namespace}/pods")
