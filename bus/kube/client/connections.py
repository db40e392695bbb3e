"""ADAPTER: raw HTTP/1.1 connections to the API server, for many small and independent writes.

The API has no request to bind several pods, and the client library costs more than the rest of a bind. So a few
connections are kept open, each with one request at a time, with the TLS and the credentials of the library. After a
broken connection or a late answer, the outcome of the write is unknown: the caller checks it. Only after a 401,
without effect, is a request sent twice.

Source: RFC 9112; Kubernetes API concepts.
"""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import urlsplit

import msgspec

from bus.kube.client.access import Credentials
from bus.kube.client.requests import CONNECT_SECONDS, LARGEST_REFUSAL

#: Connections, and so requests at once. More of them made the API server no faster: tests/benchmarks, `bind`.
MOST = 8
#: Longest wait for a connection and for a whole answer.
DEADLINE_SECONDS = 15.0


class HttpResponse(msgspec.Struct, frozen=True):
    """An answer whatever status it has. ``retry_after`` as the server wrote it; "" = it did not."""

    status: int
    body: bytes
    retry_after: str = ""


class Connections:
    """At most :data:`MOST` connections of one user; opened when they are needed."""

    def __init__(self, api: Any, credentials: Credentials) -> None:
        self._configuration = api.configuration
        self._tls = api.rest_client.ssl_context
        self._credentials = credentials
        self._slots = asyncio.Semaphore(MOST)
        #: Idle connections, the last used last.
        self._idle: list[_Connection] = []

    @property
    def is_direct(self) -> bool:
        """Whether the server is reached without a proxy; by one, the library has to ask."""
        return not self._configuration.proxy

    def close(self) -> None:
        """Let go of all connections."""
        while self._idle:
            self._idle.pop().abort()

    async def post(self, path: str, body: bytes) -> HttpResponse:
        """Sends ``body``, which is JSON, and reads the answer. Raises OSError, including TimeoutError."""
        async with self._slots, asyncio.timeout(DEADLINE_SECONDS):
            answer = await self._send(path, body)
            if answer.status == 401:
                await self._credentials.renew(self._configuration)
                answer = await self._send(path, body)
        return answer

    async def _send(self, path: str, body: bytes) -> HttpResponse:
        host = urlsplit(self._configuration.host)
        token = await self._configuration.get_api_key_with_prefix("BearerToken", "authorization")
        lines = [
            f"POST {host.path.rstrip('/')}{path} HTTP/1.1", f"Host: {host.netloc}", "User-Agent: bursar",
            "Accept: application/json", "Content-Type: application/json", f"Content-Length: {len(body)}",
        ]  # fmt: skip
        if token:
            lines.append(f"Authorization: {token}")
        head = "\r\n".join([*lines, "", ""])
        if not head.isascii() or head.count("\r\n") != len(lines) + 1:
            raise ValueError("a path or a token is more than one line of ASCII")
        connection = await self._connection()
        try:
            answer = await connection.ask(head.encode("ascii") + body)
        except BaseException:
            connection.abort()
            raise
        if connection.is_open:
            self._idle.append(connection)
        return answer

    async def _connection(self) -> _Connection:
        while self._idle:
            if (connection := self._idle.pop()).is_open:
                return connection
        host = urlsplit(self._configuration.host)
        is_tls = host.scheme == "https"
        async with asyncio.timeout(CONNECT_SECONDS):
            _, made = await asyncio.get_running_loop().create_connection(
                _Connection, host.hostname, host.port or (443 if is_tls else 80),
                ssl=self._tls if is_tls else None,
                server_hostname=(self._configuration.tls_server_name or host.hostname) if is_tls else None,
            )  # fmt: skip
        return made


class _Connection(asyncio.Protocol):
    """One connection. ``httptools`` calls the ``on_`` methods, the event loop the others."""

    def __init__(self) -> None:
        # Processes without binding do not pay for the import.
        from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

        self._parser = HttpResponseParser(self)
        self._faults = (HttpParserError, HttpParserUpgrade)
        self._transport: Any = None
        self._waiting: asyncio.Future[HttpResponse] | None = None
        self._body = bytearray()
        self._retry_after = ""

    @property
    def is_open(self) -> bool:
        """Whether another request may be sent."""
        return self._transport is not None and not self._transport.is_closing()

    def abort(self) -> None:
        """End at once: a farewell would wait for a possibly frozen server."""
        self._transport.abort()

    async def ask(self, request: bytes) -> HttpResponse:
        """The answer to one request. Raises OSError where the connection ends before it does."""
        self._waiting = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        try:
            return await self._waiting
        finally:
            self._waiting = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is open."""
        self._transport = transport

    def connection_lost(self, error: Exception | None) -> None:
        """It is gone, with whatever was asked on it."""
        self._fail(error or ConnectionResetError("the connection was closed"))

    def data_received(self, data: bytes) -> None:
        """The next bytes; unexpected ones end the connection."""
        if self._waiting is None:
            self.abort()
            return
        try:
            self._parser.feed_data(data)
        except self._faults as error:
            self._fail(ConnectionResetError(f"the answer is no HTTP: {error}"))
        if len(self._body) > LARGEST_REFUSAL:
            self._fail(ConnectionResetError("the answer is too large"))

    def on_header(self, name: bytes, value: bytes) -> None:
        """Notes after how long the server wants to be asked again."""
        if name.lower() == b"retry-after":
            self._retry_after = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        self._body += body

    def on_message_complete(self) -> None:
        """The end of an answer, or of an informational one before it."""
        status = self._parser.get_status_code()
        answer = HttpResponse(status, bytes(self._body), self._retry_after)
        self._body.clear()
        self._retry_after = ""
        if status < 200:
            return
        if not self._parser.should_keep_alive():
            self._transport.close()
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(answer)

    def _fail(self, error: Exception) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(error)
        self.abort()
