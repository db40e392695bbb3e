"""The door of the webhook: uvicorn on uvloop's transports with httptools, TLS, keep-alive.

The caller chooses the event loop; `uvloop.new_event_loop` as the loop factory is the one that was measured.
uvicorn's signal handling and its exits are left aside: signals belong to the composition root.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import uvicorn

from bus.errors import PermanentError
from reactors.webhook.application import Application
from reactors.webhook.tls import RotatingContext

#: The API server drops idle connections after 90 s. Were we first, its next review could meet a closed connection.
KEEP_ALIVE_SECONDS = 120


class ListenError(PermanentError):
    """The address cannot be listened on.

    Do not start; another program has the port, or the address is not this machine's.
    """


class ServerSettings(msgspec.Struct, frozen=True):
    """Where the webhook listens and how it ends."""

    host: str = "0.0.0.0"
    #: 0 = any free one.
    port: int = 9443
    #: How long a stopping server answers on open connections, asking each client to connect elsewhere. The API server
    #: does not repeat a review that meets a closed connection.
    drain_seconds: float = 5.0


class WebhookServer:
    """Serves an application from `start` to `stop`."""

    def __init__(
        self,
        application: Application,
        settings: ServerSettings,
        tls: RotatingContext | None,
        sockets: list[Any] | None = None,
    ) -> None:
        """`tls` None = plain HTTP, for benchmarks. `sockets`: listening ones that are given instead of host and
        port, so that several processes can share a port.
        """
        self._application = application
        self._settings = settings
        self._sockets = sockets
        config = uvicorn.Config(
            application,
            host=settings.host,
            port=settings.port,
            http="httptools",
            ws="none",
            lifespan="off",
            interface="asgi3",
            proxy_headers=False,
            server_header=False,
            date_header=False,
            access_log=False,
            log_config=None,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=3,
            ssl_context_factory=(lambda config, default: tls.listening) if tls else None,
        )
        config.load()
        self._server = uvicorn.Server(config)
        self._server.lifespan = config.lifespan_class(config)

    @property
    def port(self) -> int:
        """The port that is listened on, once started."""
        port: int = self._server.servers[0].sockets[0].getsockname()[1]
        return port

    async def start(self) -> None:
        """Returns when connections are accepted. Raises ListenError."""
        try:
            await self._server.startup(sockets=self._sockets)
        except SystemExit:  # how uvicorn says that it cannot bind
            raise ListenError(
                "cannot listen", host=self._settings.host, port=self._settings.port
            ) from None

    async def stop(self) -> None:
        """Returns when every request has its answer and every connection is closed."""
        self._application.draining = True
        loop = asyncio.get_running_loop()
        ends = loop.time() + self._settings.drain_seconds
        while self._server.server_state.connections and loop.time() < ends:
            await asyncio.sleep(0.05)
        await self._server.shutdown(sockets=self._sockets)
