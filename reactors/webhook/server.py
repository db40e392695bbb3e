"""The webhook's two ports: reviews over TLS, and beside it health and figures in plain HTTP.

Nobody else's server: they have no bound on connections, none on the time of a handshake, and exit by themselves. The caller
chooses the event loop; `uvloop.new_event_loop` as the loop factory is the one that was measured. Signals belong to the
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
    """Where a server listens, whom it answers, and how it ends."""

    host: str = "0.0.0.0"
    #: 0 = any free one.
    port: int = 9443
    #: How long a stopping server answers on open connections, asking each client to connect elsewhere. The API server
    #: does not repeat a review that meets a closed connection.
    drain_seconds: float = 5.0
    #: Names of which a client's certificate has to have one (common name, or an alternative name); empty = any.
    client_names: tuple[str, ...] = ()
    limits: ConnectionLimits = ConnectionLimits()


class Served(Protocol):
    """An ASGI application that can be asked to send its clients elsewhere."""

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
        """The port that is listened on, once started."""
        return self._listener.port

    def metrics(self) -> Iterator[Metric]:
        """What became of connections."""
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
