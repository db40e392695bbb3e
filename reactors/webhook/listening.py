"""ADAPTER: listens on an address and accepts connections, within the gate's bounds, and survives a lack of files.

It accepts connections itself, without the event loop's own server, for three reasons. A new connection is counted before a
handshake costs anything. A process without files to open pauses for a second and reports it, instead of spinning or dropping
connections. And the handshake has a deadline.

Source: Linux manual, accept(2), "Error handling": after an error with one connection, the next is tried.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl
from collections.abc import Callable

from bus.errors import PermanentError
from reactors.webhook.connections import Connection
from reactors.webhook.gate import Gate

#: Connections held by the kernel while we are busy.
BACKLOG = 2_048
#: Accepts in one go, before open connections have their turn.
BATCH = 32
#: Without files to open: between two attempts.
PAUSE_SECONDS = 1.0
#: Between two looks at the deadlines of connections.
SWEEP_SECONDS = 1.0

_CROWDED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

_log = logging.getLogger(__name__)


class ListenError(PermanentError):
    """The address cannot be listened on.

    Do not start; another program has the port, or the address is not this machine's.
    """


class Listener:
    """Accepts on one address, from :meth:`start` to :meth:`close`."""

    def __init__(
        self,
        host: str,
        port: int,
        gate: Gate,
        connection: Callable[[str], Connection],
        tls: ssl.SSLContext | None,
    ) -> None:
        self._address = host, port
        self._gate = gate
        self._connection = connection
        self._tls = tls
        self._sockets: list[socket.socket] = []
        self._handshakes: set[asyncio.Task[None]] = set()
        self._sweeping: asyncio.Task[None] | None = None
        self._resuming: asyncio.TimerHandle | None = None

    @property
    def port(self) -> int:
        """The port of the listener, once started."""
        port: int = self._sockets[0].getsockname()[1]
        return port

    async def start(self) -> None:
        """Returns when connections are accepted. Raises ListenError."""
        host, port = self._address
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(
                host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )
            for family, kind, protocol, _, address in dict.fromkeys(found):
                listening = socket.socket(family, kind, protocol)
                self._sockets.append(listening)
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                listening.bind(address)
                listening.listen(BACKLOG)
                listening.setblocking(False)
        except OSError as error:
            self._release()
            raise ListenError(
                "cannot listen", host=host, port=port, reason=error.strerror
            ) from None
        self._sweeping = asyncio.create_task(self._sweep())
        self._resume()

    def close(self) -> None:
        """Accept no more; open connections stay."""
        self._pause()
        self._release()

    async def end(self) -> None:
        """Cut every remaining connection."""
        for guest in self._gate:
            guest.cut()
        if self._sweeping is not None:
            self._sweeping.cancel()
        # Two turns of the loop for closing connections.
        await asyncio.gather(*self._handshakes, return_exceptions=True)
        await asyncio.sleep(0)

    def _release(self) -> None:
        for listening in self._sockets:
            listening.close()
        self._sockets.clear()

    def _resume(self) -> None:
        loop = asyncio.get_running_loop()
        self._resuming = None
        for listening in self._sockets:
            loop.add_reader(listening, self._accept, listening)

    def _pause(self) -> None:
        loop = asyncio.get_running_loop()
        for listening in self._sockets:
            loop.remove_reader(listening)
        if self._resuming is not None:
            self._resuming.cancel()

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(BATCH):
            try:
                connected, address = listening.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if error.errno in _CROWDED:
                    return self._wait(error)
                # That connection failed before it was ours.
                continue
            if self._gate.has_room(address[0]):
                self._take(connected, address[0])
            else:
                connected.close()

    def _wait(self, error: OSError) -> None:
        self._gate.pauses += 1
        _log.warning(
            "%s: no connection is accepted for %.0f s; %d are open",
            error.strerror, PAUSE_SECONDS, len(self._gate),
        )  # fmt: skip
        self._pause()
        self._resuming = asyncio.get_running_loop().call_later(PAUSE_SECONDS, self._resume)

    def _take(self, connected: socket.socket, address: str) -> None:
        connected.setblocking(False)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = self._connection(address)
        self._gate.enter(connection)
        task = asyncio.get_running_loop().create_task(self._shake(connected, connection))
        connection.handshake = task
        self._handshakes.add(task)

        def end(task: asyncio.Task[None]) -> None:
            self._handshakes.discard(task)
            if task.cancelled():
                # It may not have begun, and then only this closes it.
                connected.close()

        task.add_done_callback(end)

    async def _shake(self, connected: socket.socket, connection: Connection) -> None:
        """The handshake, until the connection is open or gone."""
        limits = self._gate.limits
        options = {} if self._tls is None else {
            "ssl": self._tls,
            "ssl_handshake_timeout": limits.handshake_seconds,
            "ssl_shutdown_timeout": limits.close_seconds,
        }  # fmt: skip
        loop = asyncio.get_running_loop()
        try:
            await loop.connect_accepted_socket(lambda: connection, connected, **options)  # type: ignore[arg-type]
            connection.handshake = None
        except OSError as error:  # ssl.SSLError and every time-out among them
            self._gate.ended["handshake"] += 1
            self._gate.leave(connection)
            _log.debug("no handshake with %s: %s", connection.address, error)
        except asyncio.CancelledError:
            # The gate needed the room, or the server ends.
            self._gate.leave(connection)
            raise

    async def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            now = loop.time()
            for guest in self._gate:
                guest.sweep(now)
