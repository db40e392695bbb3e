"""A service as a cluster has it: one address before several ports, connection by connection, in turn.

It looks into no connection; TLS goes through it as it is. What a dead port had open is closed.
"""

import asyncio
from contextlib import asynccontextmanager


class _End(asyncio.Protocol):
    """One of the two ends of a connection: what comes goes out at the other."""

    def __init__(self, peer=None):
        self.peer = peer
        self.transport = None
        self._early = []

    def connection_made(self, transport):
        self.transport = transport
        for part in self._early:
            transport.write(part)
        if self.peer is not None and self.peer.transport.is_closing():
            transport.close()

    def data_received(self, data):
        self.peer.send(data)

    def send(self, data):
        self.transport.write(data) if self.transport else self._early.append(data)

    def connection_lost(self, error):
        if self.peer is not None and self.peer.transport is not None:
            self.peer.transport.close()


class _Front(_End):
    """The end that the client has: it dials the other one."""

    def __init__(self, balancer):
        super().__init__()
        self._balancer = balancer

    def connection_made(self, transport):
        super().connection_made(transport)
        self.peer = _End(self)
        self._dialing = asyncio.create_task(self._dial())

    async def _dial(self):
        loop = asyncio.get_running_loop()
        for port in self._balancer.turn():
            try:
                await loop.create_connection(lambda: self.peer, "127.0.0.1", port)
                return
            except OSError:
                # It has just been killed: the next one takes it.
                continue
        self.transport.close()


class Balancer:
    """Before `ports()`: those that answer now, 0 for one that does not."""

    def __init__(self, ports):
        self._ports = ports
        self._turn = 0
        self.port = 0

    def turn(self):
        """The ports that are open now, each once, beginning with the one whose turn it is."""
        found = [port for port in self._ports() if port]
        self._turn += 1
        begin = self._turn % len(found) if found else 0
        return found[begin:] + found[:begin]

    @asynccontextmanager
    async def listening(self):
        """Take connections while the body runs."""
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: _Front(self), "127.0.0.1", 0, backlog=512)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
