"""One request and its answer on a connection, as ASGI has them. Opens no socket.

The application is called when the bytes after the headers were read, mostly the whole body, so it need not
wait. Head and body of an answer of one piece are one write, so one record of TLS. An answer may be sent before the body is
complete; the rest of the body is read and dropped.

Source: ASGI, "HTTP & WebSocket ASGI Message Format"; RFC 9112.
"""

from __future__ import annotations

import asyncio
import logging
from http import HTTPStatus
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    # Questions about decisions import the rules, and no web server.
    from starlette.types import ASGIApp, Message, Scope

_STATUS_LINES = {
    status.value: b"HTTP/1.1 %d %b\r\n" % (status, status.phrase.encode()) for status in HTTPStatus
}
_CLOSE = b"connection: close\r\n"
_CHUNKED = b"transfer-encoding: chunked\r\n"
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"

_log = logging.getLogger(__name__)


class ConnectionLine(Protocol):
    """The part of its connection needed by an exchange."""

    def write(self, data: bytes) -> None:
        """Send these bytes."""

    def wants_more(self) -> None:
        """The application waits for more of the body."""

    def answered(self, exchange: Exchange) -> None:
        """The answer is out, and the body is whole."""

    def drains(self) -> None:
        """The answer is out before the body is whole."""

    @property
    def takes(self) -> asyncio.Event | None:
        """Set while the other side takes bytes; None as long as it always did."""


class Exchange:
    """One request, from the end of its headers to the end of its answer."""

    __slots__ = (
        "_head", "_is_chunked", "_is_delivered", "_is_expecting", "_is_whole", "_line", "_moved", "_pieces",
        "held", "is_done", "is_gone", "keeps_alive", "scope",
    )  # fmt: skip

    def __init__(
        self, line: ConnectionLine, scope: Scope, *, keeps_alive: bool, is_expecting: bool
    ) -> None:
        self.scope = scope
        #: Whether the connection stays open after the answer.
        self.keeps_alive = keeps_alive
        #: Bytes of the body before the application takes them.
        self.held = 0
        self.is_done = self.is_gone = False
        self._line = line
        #: The asker waits to be told to send the body.
        self._is_expecting = is_expecting
        self._pieces: list[bytes] = []
        self._is_whole = self._is_delivered = self._is_chunked = False
        #: The answer's head: None before it begins, empty once it is sent.
        self._head: bytes | None = None
        self._moved: asyncio.Event | None = None

    # the connection's side

    def feed(self, piece: bytes) -> None:
        """A piece of the body."""
        self._pieces.append(piece)
        self.held += len(piece)
        self._wake()

    def complete(self) -> None:
        """The body is whole."""
        self._is_whole = True
        self._wake()
        if self.is_done:
            # Later, as after any other body: the parser is still at work on these bytes.
            asyncio.get_running_loop().call_soon(self._line.answered, self)

    def lose(self) -> None:
        """The connection is closed."""
        self.is_gone = True
        self._wake()

    async def run(self, application: ASGIApp) -> None:
        """Let the application answer. A missing answer is an error of ours."""
        try:
            await application(self.scope, self.receive, self.send)
        except Exception:
            _log.exception("a request was not answered")
        finally:
            if not (self.is_done or self.is_gone):
                self.keeps_alive = False
                if self._head is None:
                    self._line.write(_STATUS_LINES[500] + _CLOSE + b"content-length: 0\r\n\r\n")
                self._finish()

    # the application's side

    async def receive(self) -> Message:
        """A piece of the body; after all of it, or once there is an answer, the end of the connection."""
        if self._is_expecting:
            self._is_expecting = False
            self._line.write(_CONTINUE)
        while not (
            self.is_gone
            or self.is_done
            or self._pieces
            or (self._is_whole and not self._is_delivered)
        ):
            self._line.wants_more()
            if self._moved is None:
                self._moved = asyncio.Event()
            self._moved.clear()
            await self._moved.wait()
        if self.is_gone or self.is_done:
            return {"type": "http.disconnect"}
        body = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces, self.held, self._is_delivered = [], 0, self._is_whole
        return {"type": "http.request", "body": body, "more_body": not self._is_whole}

    async def send(self, message: Message) -> None:
        """The beginning of an answer, or a piece of its body. Does nothing on a closed connection."""
        if (takes := self._line.takes) is not None:
            await takes.wait()
        if self.is_gone:
            return
        if message["type"] == "http.response.start" and self._head is None:
            if self._is_expecting:
                # The body was never asked for, and may never come.
                self._is_expecting, self._is_whole, self.keeps_alive = False, True, False
            self._head = self._headed(message)
            return
        if message["type"] != "http.response.body" or self._head is None or self.is_done:
            raise RuntimeError(f"{message['type']} has no place here")
        body, more = message.get("body", b""), message.get("more_body", False)
        if self.scope["method"] == "HEAD":
            body = b""
        elif self._is_chunked:
            chunk = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
            body = chunk if more else chunk + b"0\r\n\r\n"
        self._line.write(self._head + body)
        self._head = b""
        if not more:
            self._finish()

    def _headed(self, message: Message) -> bytes:
        parts = [_STATUS_LINES[message["status"]]]
        is_sized = False
        for name, value in message.get("headers", ()):
            if name == b"content-length":
                is_sized = True
            elif name == b"connection" and value == b"close":
                self.keeps_alive = False
                continue
            parts.append(b"%b: %b\r\n" % (name, value))
        if not self.keeps_alive:
            parts.append(_CLOSE)
        if not is_sized:
            self._is_chunked = True
            parts.append(_CHUNKED)
        parts.append(b"\r\n")
        return b"".join(parts)

    def _finish(self) -> None:
        self.is_done = True
        self._pieces, self.held = [], 0
        self._wake()
        if self._is_whole:
            self._line.answered(self)
        else:
            # Closed now, the connection would be reset under the asker's hand, and the answer lost.
            self._line.drains()

    def _wake(self) -> None:
        if self._moved is not None:
            self._moved.set()
