"""One connection: uvicorn's HTTP/1.1 over TLS, with a deadline for each phase, bounds on its bytes, and a look at who it is.

The name in a client's certificate is looked at when the handshake is done, before a byte of a request is read.

uvicorn bounds neither the time nor the size of headers. One sweep a second looks at the deadline of every connection;
a timer for each request would cost more than all of this. The header's size is bounded twice: by the raw bytes while it is
incomplete, and by its fields when it is complete, as one read may hold more than the bound.

Source: uvicorn.protocols.http.httptools_impl; RFC 6585 section 5 (431).
"""

from __future__ import annotations

import asyncio
import logging
import math

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from reactors.webhook.gate import Gate
from reactors.webhook.tls import names_of

_NEVER = math.inf
_TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"connection: close\r\ncontent-length: 0\r\n\r\n"
)

_log = logging.getLogger(__name__)


class _TooLargeError(Exception):
    """These headers were refused."""


class Connection(HttpToolsProtocol):
    """One connection that ``gate`` let in, from its accept to its end. Keeps :class:`reactors.webhook.gate.Guest`."""

    def __init__(self, config: Config, state: ServerState, gate: Gate, address: str) -> None:
        super().__init__(config, state, {})
        self._gate = gate
        self._limits = gate.limits
        self.address = address
        self.has_asked = False
        self.idle_since: float | None = None
        #: When it is cut (loop time); the handshake has a deadline of its own.
        self.due = _NEVER
        #: The handshake; None once it is done.
        self.handshake: asyncio.Task[None] | None = None
        self._is_in_request = self._has_headers = False
        self._received = 0

    # deadlines

    def sweep(self, now: float) -> None:
        """Cut it if it is late."""
        if now >= self.due:
            self._gate.ended["late"] += 1
            self.cut()

    def cut(self) -> None:
        """End it at once, in whatever phase it is."""
        if self.transport is not None:
            self.transport.abort()
        elif self.handshake is not None:
            self.handshake.cancel()

    # asyncio's side

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """The handshake is done: look who it is."""
        super().connection_made(transport)
        self.due = self.loop.time() + self._gate.limits.header_seconds
        if not self._gate.names:
            return
        tls = transport.get_extra_info("ssl_object")
        names = names_of((tls.getpeercert() if tls is not None else None) or {})
        if not names & self._gate.names:
            self._gate.ended["stranger"] += 1
            _log.warning(
                "a client at %s was sent away: its certificate names %s, not one of %s",
                self.address, sorted(names)[:8], sorted(self._gate.names),
            )  # fmt: skip
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is closed."""
        self._gate.leave(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Bytes of requests. The first byte of one starts its clock, and no further byte prolongs it."""
        limits = self._limits
        if not self._is_in_request:
            self._is_in_request, self._received, self.idle_since = True, 0, None
            if self.has_asked:
                self.due = self.loop.time() + limits.header_seconds
        self._received += len(data)
        super().data_received(data)
        if self.parser is None or self.transport.is_closing():
            return
        if self._received > (limits.body_bytes if self._has_headers else limits.header_bytes):
            self._refuse()

    # the parser's side

    def on_headers_complete(self) -> None:
        """The whole header is there: begin the request, unless it is too large."""
        # What came so far is more than the header; only where that is too much the header itself need be measured.
        if self._received > self._limits.header_bytes and self._size() > self._limits.header_bytes:
            self._refuse()
            # Ends the parser's work on these bytes.
            raise _TooLargeError
        self._has_headers = self.has_asked = self._is_in_request = True
        self._received = 0
        self.due = self.loop.time() + self._limits.request_seconds
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        """The answer is out."""
        super().on_response_complete()
        now, limits = self.loop.time(), self._gate.limits
        if self.transport.is_closing():
            self.due = now + limits.close_seconds
        elif self._starts_next():
            self.due = now + limits.request_seconds
        else:
            self._is_in_request = self._has_headers = False
            self.due, self.idle_since = _NEVER, now

    def _starts_next(self) -> bool:
        """Whether a request that came before its turn (HTTP pipelining) is being answered now."""
        return self.cycle is not None and not self.cycle.response_complete

    def _size(self) -> int:
        # Each field has a colon, a space and an end of line besides.
        return len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)

    def send_400_response(self, msg: str) -> None:
        """No HTTP: say so and close. Of what was refused already nothing more is said."""
        if self.transport.is_closing():
            return
        self._gate.ended["not HTTP"] += 1
        super().send_400_response(msg)
        self.due = self.loop.time() + self._limits.close_seconds

    def _refuse(self) -> None:
        """Too many bytes: say so where nothing was answered yet, and close."""
        if self.transport.is_closing():
            return
        self._gate.ended["too large"] += 1
        if not self._has_headers:
            self.transport.write(_TOO_LARGE)
            self.transport.close()
            self.due = self.loop.time() + self._gate.limits.close_seconds
        else:
            self.transport.abort()
