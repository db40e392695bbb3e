"""One connection: HTTP/1.1 over TLS, with a deadline for each phase, bounds on its bytes, and a check of the client.

The name in a client's certificate is checked after the handshake, before a byte of a request is read.

httptools reads the bytes, with no other layer between it and the application. An external ASGI server (uvicorn) took
15 to 20 us of CPU more for each review, and bounds neither the time nor the size of headers. One sweep a second checks the
deadline of every connection; a timer for each request would cost more than all of this. The header's size is bounded twice:
by the raw bytes while it is incomplete, and by its fields when it is complete, as one read may hold more than the bound.

Source: RFC 9112; RFC 6585 section 5 (431).
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import deque
from typing import TYPE_CHECKING

import httptools

from reactors.webhook.exchange import Exchange
from reactors.webhook.gate import Gate
from reactors.webhook.head import RequestHead
from reactors.webhook.tls import names_of

if TYPE_CHECKING:
    from starlette.types import ASGIApp

#: Bytes of a body held for the application; then the client has to wait.
MOST_HELD = 65_536

_NEVER = math.inf
_TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"connection: close\r\ncontent-length: 0\r\n\r\n"
)
_NOT_HTTP = b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"

_log = logging.getLogger(__name__)


class _TooLargeError(Exception):
    """These headers were refused."""


class Traffic:
    """The open work of one server: connections after their handshake, and answers in progress."""

    def __init__(self) -> None:
        self.connections: set[Connection] = set()
        self.tasks: set[asyncio.Task[None]] = set()

    def __bool__(self) -> bool:
        return bool(self.connections or self.tasks)


class Connection(asyncio.Protocol):
    """One connection admitted by ``gate``, from its accept to its end. Implements :class:`reactors.webhook.gate.Guest`."""

    def __init__(self, application: ASGIApp, traffic: Traffic, gate: Gate, address: str) -> None:
        self._application = application
        self._traffic = traffic
        self._gate = gate
        self._limits = gate.limits
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpRequestParser(self)
        # A request to close is answered, whatever bytes follow.
        self._parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self._transport: asyncio.Transport | None = None
        self.address = address
        self.has_asked = False
        self.idle_since: float | None = None
        #: When it is cut (loop time); the handshake has a deadline of its own.
        self.due = _NEVER
        #: The handshake; None once it is done.
        self.handshake: asyncio.Task[None] | None = None
        self._is_in_request = self._has_headers = False
        self._received = 0
        #: The header in progress.
        self._head = RequestHead()
        #: The request in progress, those that came before their turn (HTTP pipelining), and the last that began.
        self._running: Exchange | None = None
        self._waiting: deque[Exchange] = deque()
        self._latest: Exchange | None = None
        #: Set while the other side takes bytes; None as long as it always did.
        self.takes: asyncio.Event | None = None
        self._is_paused = False

    # deadlines

    def sweep(self, now: float) -> None:
        """Cut it if it is late; close it if it rested long enough."""
        if now < self.due:
            return
        if self.idle_since is not None and self._transport is not None:
            self._close()
            self.idle_since = None
        else:
            self._gate.ended["late"] += 1
            self.cut()

    def cut(self) -> None:
        """End it at once, in any phase."""
        if self._transport is not None:
            self._transport.abort()
        elif self.handshake is not None:
            self.handshake.cancel()

    def end(self) -> None:
        """Close it, after the answer in progress."""
        if self._latest is not None and not self._latest.is_done:
            self._latest.keeps_alive = False
        elif self._transport is not None:
            self._transport.close()

    # asyncio's side

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Check the client: the handshake is done."""
        self._transport = transport
        self._traffic.connections.add(self)
        self.due = self._loop.time() + self._limits.header_seconds
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
        self._traffic.connections.discard(self)
        self._waiting.clear()
        self.resume_writing()
        if self._running is not None:
            self._running.lose()

    def data_received(self, data: bytes) -> None:
        """Bytes of requests. The first byte of one starts its clock, and no further byte prolongs it."""
        limits = self._limits
        if not self._is_in_request:
            self._is_in_request, self._received, self.idle_since = True, 0, None
            if self.has_asked:
                self.due = self._loop.time() + limits.header_seconds
        self._received += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            # Only HTTP/1.1 is spoken: the request is answered as it is, and later bytes are not read.
            assert self._latest is not None
            self._latest.keeps_alive = False
        except httptools.HttpParserError:
            return self._refuse_bytes()
        if self._is_closing():
            return
        if self._received > (limits.body_bytes if self._has_headers else limits.header_bytes):
            self._refuse()
        elif self._waiting and self._running is None:
            self._begin()

    def pause_writing(self) -> None:
        """The other side takes no more bytes for now."""
        if self.takes is None:
            self.takes = asyncio.Event()
        self.takes.clear()

    def resume_writing(self) -> None:
        """It takes bytes again."""
        if self.takes is not None:
            self.takes.set()

    # the parser's side

    def on_message_begin(self) -> None:
        """A request begins."""
        self._head = RequestHead()

    def on_url(self, url: bytes) -> None:
        """A piece of its address."""
        self._head.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """One field of its header; fields after a body (trailers) are ignored."""
        self._head.fields.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """The whole header is there: a request to answer, unless it is too large."""
        # The read bytes are more than the header; the header itself is measured only if they exceed the bound.
        if (
            self._received > self._limits.header_bytes
            and self._head.size > self._limits.header_bytes
        ):
            self._refuse()
            # Ends the parser's work on these bytes.
            raise _TooLargeError
        self._has_headers = self.has_asked = self._is_in_request = True
        self._received = 0
        self.due = self._loop.time() + self._limits.request_seconds
        version = self._parser.get_http_version()
        path = self._head.url.partition(b"?")[0]
        if not path.startswith(b"/"):
            path = httptools.parse_url(self._head.url).path or b"/"
        scope = self._head.scope(self._parser.get_method().decode("ascii"), version, path)
        self._latest = Exchange(
            self,
            scope,
            keeps_alive=version != "1.0" and self._parser.should_keep_alive(),
            is_expecting=self._head.is_expecting,
        )
        self._waiting.append(self._latest)

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        exchange = self._latest
        if exchange is None or exchange.is_done:
            return
        exchange.feed(body)
        if exchange.held > MOST_HELD:
            self._pause()

    def on_message_complete(self) -> None:
        """The body is whole."""
        if self._latest is not None:
            self._latest.complete()

    # the exchange's side

    def write(self, data: bytes) -> None:
        """Send these bytes."""
        if self._transport is not None:
            self._transport.write(data)

    def wants_more(self) -> None:
        """The application waits for more of the body; a pipelined request has to wait."""
        if self._is_paused and not self._waiting and not self._is_closing():
            assert self._transport is not None
            self._is_paused = False
            self._transport.resume_reading()

    def answered(self, exchange: Exchange) -> None:
        """The answer is out: close, begin the next request, or rest."""
        self._running = None
        if not exchange.keeps_alive or self._is_closing():
            return self._close()
        if self._waiting:
            self._begin()
            self.due = self._loop.time() + self._limits.request_seconds
            return
        self.wants_more()
        self._is_in_request = self._has_headers = False
        self.idle_since = self._loop.time()
        self.due = self.idle_since + self._limits.idle_seconds

    def drains(self) -> None:
        """The answer is sent: the rest of the body is read and dropped, for a while."""
        self.due = self._loop.time() + self._limits.close_seconds
        self.wants_more()

    # within

    def _begin(self) -> None:
        self._running = self._waiting.popleft()
        if self._waiting:
            self._pause()
        task = self._loop.create_task(self._running.run(self._application))
        self._traffic.tasks.add(task)
        task.add_done_callback(self._traffic.tasks.discard)

    def _pause(self) -> None:
        if not self._is_paused and self._transport is not None:
            self._is_paused = True
            self._transport.pause_reading()

    def _close(self) -> None:
        if self._transport is not None:
            self._transport.close()
        self.due = self._loop.time() + self._limits.close_seconds

    def _is_closing(self) -> bool:
        return self._transport is None or self._transport.is_closing()

    def _refuse_bytes(self) -> None:
        """No HTTP: answer so and close. A refused request gets no second answer."""
        if self._is_closing():
            return
        self._gate.ended["not HTTP"] += 1
        self.write(_NOT_HTTP)
        self._close()

    def _refuse(self) -> None:
        """Too many bytes: answer so if no answer was sent yet, and close."""
        if self._is_closing():
            return
        self._gate.ended["too large"] += 1
        if not self._has_headers:
            self.write(_TOO_LARGE)
            self._close()
        else:
            self.cut()
