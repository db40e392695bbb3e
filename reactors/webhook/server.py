"""The webhook's two ports: reviews over TLS, and beside it health and figures in plain HTTP.

External servers have no bound on connections, none on the time of a handshake, and exit by themselves. The caller
chooses the event loop; benchmarks measured `uvloop.new_event_loop` as the loop factory. Signals belong to the
composition root.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from functools import partial
from typing import Protocol

import msgspec
from starlette.types import Receive, Scope, Send

from bus.metrics import Metric
from reactors.webhook.connections import Connection, Traffic
from reactors.webhook.gate import ConnectionLimits, Gate
from reactors.webhook.listening import Listener, ListenError
from reactors.webhook.tls import RotatingContext

#: For requests under way when the server ends, after the draining.
END_SECONDS = 3.0

_log = logging.getLogger(__name__)


class ServerSettings(msgspec.Struct, frozen=True):
    """A server's address, its clients, and its end."""

    host: str = "0.0.0.0"
    #: 0 = any free one.
    port: int = 9443
    #: The time in which a stopping server still answers on open connections, and asks each client to reconnect elsewhere. The
    #: API server does not repeat a review on a closed connection.
    drain_seconds: float = 5.0
    #: A client's certificate must have one of these names (common name, or an alternative name); empty = any.
    client_names: tuple[str, ...] = ()
    limits: ConnectionLimits = ConnectionLimits()


class Served(Protocol):
    """An ASGI application that can ask its clients to reconnect elsewhere."""

    draining: bool

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""


class WebhookServer:
    """Serves an application from `start` to `stop`."""

    def __init__(
        self, application: Served, settings: ServerSettings, tls: RotatingContext | None
    ) -> None:
        """`tls` None = plain HTTP: the port of health and figures, and benchmarks."""
        self._application = application
        self._settings = settings
        self.gate = Gate(settings.limits, settings.client_names)
        self._traffic = Traffic()
        self._listener = Listener(
            settings.host,
            settings.port,
            self.gate,
            partial(Connection, application, self._traffic, self.gate),
            tls.listening if tls else None,
        )

    @property
    def port(self) -> int:
        """The port of the listener, once started."""
        return self._listener.port

    def metrics(self) -> Iterator[Metric]:
        """Metrics of its connections."""
        return self.gate.metrics()

    async def start(self) -> None:
        """Returns when connections are accepted. Raises ListenError."""
        await self._listener.start()

    async def stop(self) -> None:
        """Returns when every request has its answer and every connection is closed."""
        self._application.draining = True
        await self._until_empty(self._settings.drain_seconds)
        self._listener.close()
        for connection in list(self._traffic.connections):
            connection.end()
        if not await self._until_empty(END_SECONDS):
            _log.error(
                "%d requests did not end in time and are cancelled", len(self._traffic.tasks)
            )
        for task in list(self._traffic.tasks):
            task.cancel()
        await self._listener.end()

    async def _until_empty(self, seconds: float) -> bool:
        loop = asyncio.get_running_loop()
        ends = loop.time() + seconds
        while self._traffic and loop.time() < ends:
            await asyncio.sleep(0.05)
        return not self._traffic


__all__ = ["ListenError", "Served", "ServerSettings", "WebhookServer"]
