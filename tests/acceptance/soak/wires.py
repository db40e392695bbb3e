"""A network between processes and a server, which a test can cut without ending a connection."""

import asyncio
import contextlib
import threading
from collections import deque

from tests.acceptance.balancing import Balancer


class _End(asyncio.Protocol):
    """One of the two ends of a connection: what comes goes out at the other, unless the wire is cut."""

    def __init__(self, wire):
        self.wire, self.peer, self.transport = wire, None, None
        self._is_over = False
        self._late = deque()

    def connection_made(self, transport):
        self.transport = transport
        self.wire.ends.add(self)
        if self.wire.is_cut:
            transport.pause_reading()

    def data_received(self, data):
        if not self.wire.delay and not self._late:
            self.peer.transport.write(data)
            return
        self._late.append(data)
        asyncio.get_running_loop().call_later(self.wire.delay, self._arrive)

    def _arrive(self):
        self.peer.transport.write(self._late.popleft())

    def connection_lost(self, error):
        self._is_over = True
        self.mend()

    def mend(self):
        """What came meanwhile goes on; the other side hears of an end only now."""
        if not self._is_over:
            self.transport.resume_reading()
            return
        self.wire.ends.discard(self)
        if self.wire.is_cut:
            self.wire.ends.add(self)
        elif self.peer is not None and self.peer.transport is not None:
            self.peer.transport.close()


class _Front(_End):
    """The end that the client has: it dials the other one."""

    def connection_made(self, transport):
        super().connection_made(transport)
        self.peer = _End(self.wire)
        self.peer.peer = self
        transport.pause_reading()
        self._dialing = asyncio.ensure_future(self._dial())

    def mend(self):
        # Before it has dialed there is nobody to whom what comes could go.
        if self._is_over or self.peer.transport is not None:
            super().mend()

    async def _dial(self):
        await self.wire.whole.wait()
        try:
            await self.wire.dial(lambda: self.peer)
        except OSError:
            self.transport.close()
            return
        if not self.wire.is_cut and not self.transport.is_closing():
            self.transport.resume_reading()


class Wire:
    """A port of this machine before a server: of a port, or of the path of a socket.

    Cut, it is silent: connections stay open and tell nothing, new ones are taken and come nowhere. Mended, what was sent
    meanwhile arrives, as after a partition. It runs in a thread of its own.
    """

    def __init__(self, target):
        self._target = target
        self.ends, self.is_cut, self.port = set(), False, 0
        #: Seconds that all takes, in each direction.
        self.delay = 0.0
        self._loop, started = asyncio.new_event_loop(), threading.Event()
        self._thread = threading.Thread(target=self._run, args=(started,), daemon=True)
        self._thread.start()
        started.wait(10)

    def _run(self, started):
        async def begin():
            self.whole = asyncio.Event()
            self.whole.set()
            self._server = await self._loop.create_server(lambda: _Front(self), "127.0.0.1", 0)
            self.port = self._server.sockets[0].getsockname()[1]
            started.set()

        self._loop.run_until_complete(begin())
        self._loop.run_forever()
        self._loop.run_until_complete(self._ended())
        self._loop.close()

    async def _ended(self):
        """What is left open would be found, and blamed on whichever test runs by then."""
        self._server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for one in tasks:
            one.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for one in list(self.ends):
            one.transport.abort()
        # Transports close their sockets in a later turn of the loop.
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    def dial(self, protocol):
        """A connection to the server."""
        if isinstance(self._target, int):
            return self._loop.create_connection(protocol, "127.0.0.1", self._target)
        return self._loop.create_unix_connection(protocol, self._target)

    def cut(self):
        """Nothing arrives from now on."""
        self._loop.call_soon_threadsafe(self._cut)

    def _cut(self):
        self.is_cut = True
        self.whole.clear()
        for one in self.ends:
            if not one.transport.is_closing():
                one.transport.pause_reading()

    def mend(self):
        """Everything arrives again."""
        self._loop.call_soon_threadsafe(self._mend)

    def _mend(self):
        self.is_cut = False
        self.whole.set()
        for one in list(self.ends):
            one.mend()

    def slow(self, seconds=0.15):
        """All takes so long from now on, in each direction."""
        self.delay = seconds

    def hasten(self):
        """It does no more."""
        self.delay = 0.0

    def stop(self):
        """End all connections."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)


def balanced(ports, stack):
    """A port before the ports that ``ports()`` gives, connection by connection, until the stack ends."""
    loop, started = asyncio.new_event_loop(), threading.Event()
    balancer = Balancer(ports)

    async def run():
        async with balancer.listening():
            started.set()
            await asyncio.Event().wait()

    def live():
        with contextlib.suppress(asyncio.CancelledError):
            loop.run_until_complete(task)
        loop.close()

    task = loop.create_task(run())
    thread = threading.Thread(target=live, daemon=True)
    thread.start()
    started.wait(10)
    stack.callback(thread.join, 10)
    stack.callback(loop.call_soon_threadsafe, task.cancel)
    return balancer.port
