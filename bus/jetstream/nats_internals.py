"""All private parts of nats-py used by Bursar, in one place: a new release of nats-py may change it.

nats-py's work for each message (a header dictionary, a dataclass, a queue, a task switch) costs five times the
reading. So messages of some subscriptions go as bytes to a plain function. For that nats-py's parser has a loop in
front of it; log-in, pings, errors and all other messages still take nats-py's own way.

Source: nats-py 2.16, `nats/aio/client.py` and `nats/protocol/parser.py`.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import Any

import nats.errors
from nats.aio.client import Client
from nats.aio.subscription import Subscription
from nats.protocol.parser import Parser

from bus.errors import BusTlsError
from bus.jetstream.tls import Tls
from bus.waiting import heeded

#: Receiver of a raw message: subject, reply subject, body, header block (empty without headers).
Take = Callable[[bytes, bytes, bytes, bytes], None]


class _RawParser(Parser):
    """nats-py's parser behind a loop for the messages of raw subscriptions.

    Anything else in the stream (pings, answers, errors, log-in) goes to nats-py as it came.
    """

    def __init__(self, client: RawClient) -> None:
        super().__init__(client)
        self.raw = client.raw

    async def parse(self, data: bytes = b"") -> None:
        buffer = self.buf
        if buffer:
            data = bytes(buffer) + data
            buffer.clear()
        place = 0
        try:
            while True:
                place = _taken(data, place, self.raw)
                end = _end(data, place)
                if not end:
                    break
                await super().parse(data[place:end])
                if self.buf is not buffer:
                    return  # Reset by an error: the rest belongs to the old connection.
                place = end
        except ValueError as error:
            raise nats.errors.ProtocolError from error
        buffer += data[place:]


def _taken(data: bytes, place: int, raw: dict[int, Take]) -> int:
    """Hand over the complete raw messages from `place` on; where the rest begins."""
    size = len(data)
    while data.startswith(b"HMSG ", place):
        end = data.find(b"\r\n", place)
        if end < 0:
            break
        words = data[place:end].split(b" ")
        if len(words) != 6:
            break
        _, subject, id, reply, of_headers, of_both = words
        if (take := raw.get(int(id))) is None:
            break
        start = end + 2
        middle, stop = start + int(of_headers), start + int(of_both)
        if stop + 2 > size:
            break
        take(subject, reply, data[middle:stop], data[start:middle])
        place = stop + 2
    return place


def _end(data: bytes, place: int) -> int:
    """The end of the next whole command for nats-py; 0 while it is not all there."""
    end = data.find(b"\r\n", place) + 2
    if end < 2:
        return 0
    if data.startswith((b"HMSG ", b"MSG "), place):
        end += int(data[place : end - 2].rpartition(b" ")[2]) + 2
    return end if end <= len(data) else 0


class TlsRefusedError(nats.errors.Error):
    """A connection is not what `Tls` asks for; nats-py tries again after it."""


class RawClient(Client):
    """nats-py without its per-message work for the subscriptions in `raw`. A given `tls` is always enforced."""

    def __init__(self, tls: Tls | None = None) -> None:
        super().__init__()
        self._tls = tls
        #: The host name of servers known by an address alone.
        self._name: str | None = None
        self.raw: dict[int, Take] = {}
        self._ps = _RawParser(self)

    async def _process_msg(
        self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes
    ) -> None:
        take = self.raw.get(sid)
        if take is None:
            await super()._process_msg(sid, subject, reply, data, headers)
        else:
            take(subject, reply, data, headers or b"")

    async def _connect_to_server(self, s: Any) -> None:
        # A failed log-in leaves its connection open, and nats-py forgets it with the next try.
        if self._transport:
            self._transport.close()  # type: ignore[no-untyped-call]
        await super()._connect_to_server(s)

    @property
    def ssl_context(self) -> ssl.SSLContext:
        """Asked for with each connection."""
        try:
            return (self._tls or Tls()).context()
        except BusTlsError as error:
            raise TlsRefusedError(str(error)) from error

    async def _process_connect_init(self) -> None:
        try:
            await super()._process_connect_init()
        except BaseException as error:
            # asyncio does not report the end of a connection with a failed handshake. nats-py would wait for it for
            # ever.
            if (left := self._transport) is not None:
                self._transport = None
                left.close()  # type: ignore[no-untyped-call]
            if isinstance(error, OSError | TimeoutError | nats.errors.Error) or not isinstance(
                error, Exception
            ):
                raise
            # Any other would end its reconnecting: an odd greeting comes from a stranger in the server's place.
            raise nats.errors.Error(f"the greeting cannot be read: {error}") from error

    async def _process_info(self, info: dict[str, Any], initial_connection: bool = False) -> None:
        if self._tls is None:
            await super()._process_info(info, initial_connection)
            return
        if initial_connection:
            # nats-py goes on unencrypted, and tells its password, where a server, or somebody between, offers no TLS.
            if info.get("tls_required") is not True:
                raise TlsRefusedError("the server offers no TLS")
            # This is said before the handshake, by anybody. Inside TLS the server says once more where the others are.
            info = {name: value for name, value in info.items() if name != "connect_urls"}
        await super()._process_info(info, initial_connection)
        if self._name is None and self._current_server is not None:
            self._name = self._current_server.uri.hostname
        for server in self._server_pool:
            if server.tls_name is not None:
                server.tls_name = self._name

    async def _process_op_err(self, e: Exception) -> None:
        self._abort()
        await super()._process_op_err(e)

    async def _close(self, status: int, do_cbs: bool = True) -> None:
        if not self.is_connected:
            self._abort()
        await super()._close(status, do_cbs)

    def _abort(self) -> None:
        # nats-py ends a broken connection in order before it looks for another: a silent one takes 30 s with TLS, and as long as
        # TCP does where bytes are unsent.
        writer = getattr(self._transport, "_io_writer", None)
        if writer is not None:
            writer.transport.abort()

    @property
    def given_up(self) -> bool:
        """Whether it is not connected, and nothing tries to connect it again."""
        task = self._reconnection_task
        return not self.is_connected and (task is None or task.done())

    @property
    def greeting(self) -> dict[str, Any]:
        """The server's greeting."""
        return dict(self._server_info)

    async def write(self, commands: bytes) -> None:
        """Write finished protocol commands in one piece, waiting while the socket's buffer is full."""
        await heeded(self._send_command(commands))
        await heeded(self._flush_pending())


def number(subscription: Subscription) -> int:
    """The number of a subscription in the protocol, part of each of its messages."""
    return int(subscription._id)
