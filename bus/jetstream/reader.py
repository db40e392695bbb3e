"""The ordered read: own pull requests ahead, raw messages in a list, one wake-up per batch.

An ephemeral consumer without acknowledgements starts at a sequence; the ledger's checkpoint alone records the read
position (docs/reliability.md). Two pull requests are kept open, so the server always has leave to send; its
outstanding messages are counted, so a slow reader holds at most two batches, and each request is bounded in bytes
as well. Nothing runs in the background: a dropped read leaves no task behind.

The consumer is only a pipe and is thrown away at the first doubt: a broken connection, a silent server (no
heartbeat), a deleted consumer, a gap. The next one starts after the last received message, once the history proves
the same: created at the same time, at least as long, and with the same message at that place. Sequences are used
again after a lost tail, so length alone proves nothing (docs/reliability.md).

A server skips an unreadable message (a block cut short, a flipped bit), and reports nothing if it is the last one.
So after heartbeats alone a reader asks for the stream's length, and for the next message itself: a counted but
missing message is a hole in the history.

Source: ADR-37 (pull requests, heartbeats, status codes); tests/benchmarks/README.md, row "own pull".
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator

import msgspec

from bus.envelope import Event
from bus.errors import BusUnavailableError, HistoryDivergedError
from bus.jetstream import wire
from bus.jetstream.connection import ApiError, Connection, Inbox, token
from bus.jetstream.position import History, Position

#: Largest pull request. A reader holds at most one batch and one request.
MAX_REQUEST = 1000

#: Bytes at the end of a pull request: two of them bound the memory of a slow reader.
REQUEST_BYTES = 8 * 1024 * 1024

#: Heartbeat interval of a waiting pull request, and the accepted silence.
HEARTBEAT_SECONDS = 2.0
SILENCE_SECONDS = 5.0

#: A pull request is forgotten by the server after this time and asked anew.
EXPIRES_SECONDS = 30

#: A finite read gives up after so long without a connection; a live one never does.
OUTAGE_SECONDS = 30.0

_NANO = 1_000_000_000
_log = logging.getLogger(__name__)


class Reader:
    """One ordered read. Use :meth:`batches` once."""

    def __init__(
        self,
        connection: Connection,
        history: History,
        stream: str,
        *,
        after: int,
        batch: int,
        linger_seconds: float,
        live: bool,
    ) -> None:
        if after < 0 or batch < 1:
            raise ValueError(f"cannot read batches of {batch} after {after}")
        self._connection = connection
        self._history = history
        self._stream = stream
        self._position = Position(history, after, live=live)
        self._batch = batch
        self._request = min(batch, MAX_REQUEST)
        self._linger = linger_seconds
        self._live = live
        # As received: subject, reply, body, headers. Nothing is decoded inside the socket's reader.
        self._raw: list[tuple[bytes, bytes, bytes, bytes]] = []
        self._outstanding = 0
        self._inbox: Inbox | None = None
        self._consumer = ""
        self._ack_start = b""
        self._doubtful = ""
        self._is_idle = False
        self._behind = 0
        self._waiter: asyncio.Future[None] | None = None
        self._wanted = 1

    async def batches(self) -> AsyncIterator[list[Event]]:
        """Lists of 1 to `batch` events. See :class:`bus.transport.Transport`."""
        self._connection.on_lost.add(self._lost)
        try:
            while self._position.left != 0:
                if not self._consumer or self._doubtful:
                    await self._open()
                    continue
                await self._refill()
                if await self._arrived():
                    events = self._decoded()
                    if events:
                        yield events
                elif self._is_idle and not self._doubtful:
                    await self._look()
        finally:
            self._connection.on_lost.discard(self._lost)
            await self._drop()

    # --- the pipe --------------------------------------------------------------------------------

    async def _open(self) -> None:
        """A new consumer after the received messages, as soon as the bus allows."""
        if self._doubtful:
            _log.info(
                "reading again after sequence %d: %s", self._position.received, self._doubtful
            )
        await self._drop()
        deadline = None if self._live else OUTAGE_SECONDS
        while True:
            self._doubtful = ""
            try:
                await self._connection.ready(deadline)
                await self._position.check()
                await self._create()
                return
            except (BusUnavailableError, ApiError) as error:
                if not self._live or self._connection.closed:
                    raise BusUnavailableError(reason=str(error)) from error
                _log.warning("the history cannot be read now: %s", error)
                await asyncio.sleep(1.0)

    async def _look(self) -> None:
        """Doubt a consumer silent below the stream's end, and a history with a missing message there."""
        self._is_idle = False
        expected = self._position.received + 1
        try:
            if (await self._history.head()).last_sequence < expected:
                return
            stored = await self._history.at(expected)
        except BusUnavailableError as error:
            self._doubtful = str(error)
            return
        if self._raw or self._doubtful:
            return
        if stored is None:
            if self._position.misses(expected):
                raise HistoryDivergedError(
                    "the bus lost a message at the end of what it can read", sequence=expected
                )
        elif self._behind != expected:
            # It may have been stored this moment: wait for one more heartbeat.
            self._behind = expected
            return
        elif not self._live:
            raise BusUnavailableError(reason="the bus does not deliver", sequence=expected)
        self._doubtful = f"sequence {expected} does not come"

    async def _create(self) -> None:
        name = "read-" + token()
        config = {
            "name": name,
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": self._position.received + 1,
            "ack_policy": "none",
            "replay_policy": "instant",
            "mem_storage": True,
            "num_replicas": 1,
            "inactive_threshold": EXPIRES_SECONDS * _NANO,
        }
        body = msgspec.json.encode({"stream_name": self._stream, "config": config})
        self._inbox = await self._connection.listen(self._take)
        await self._connection.ask(f"CONSUMER.CREATE.{self._stream}.{name}", body)
        self._consumer = name
        self._ack_start = f"$JS.ACK.{self._stream}.{name}.1.".encode()

    async def _drop(self) -> None:
        """Forget the consumer, without waiting for the server; the server forgets it by itself too."""
        inbox, self._inbox = self._inbox, None
        name, self._consumer = self._consumer, ""
        self._outstanding = 0
        if inbox is not None:
            await inbox.close()
        if name and self._connection.connected:
            command = f"PUB $JS.API.CONSUMER.DELETE.{self._stream}.{name} 0\r\n\r\n"
            await self._connection.send(command.encode())
        # The next consumer begins after the delivered messages: the ones left here would come twice.
        self._raw.clear()

    async def _refill(self) -> None:
        """Keep up to two requests open, as far as the list is empty enough to take them."""
        held, left = self._outstanding + len(self._raw), self._position.left
        commands = []
        while held <= max(self._request, self._batch) and self._inbox is not None:
            size = self._request
            if left is not None:
                size = min(size, left - held)
            if size <= 0:
                break
            commands.append(self._pull(size))
            held += size
            self._outstanding += size
        if commands:
            await self._connection.send(b"".join(commands))

    def _pull(self, size: int) -> bytes:
        assert self._inbox is not None
        body = (
            f'{{"batch":{size},"expires":{EXPIRES_SECONDS * _NANO},"max_bytes":{REQUEST_BYTES},'
            f'"idle_heartbeat":{int(HEARTBEAT_SECONDS * _NANO)}}}'
        )
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self._stream}.{self._consumer}"
        return f"PUB {subject} {self._inbox.prefix.decode()}m {len(body)}\r\n{body}\r\n".encode()

    # --- called by the socket's reader -----------------------------------------------------------

    def _take(self, subject: bytes, reply: bytes, body: bytes, headers: bytes) -> None:
        if reply.startswith(b"$JS.ACK."):
            self._raw.append((subject, reply, body, headers))
            self._outstanding -= 1
            if len(self._raw) >= self._wanted:
                self._wake()
            return
        code = wire.status(headers)
        if code != 100:
            self._ended(code, wire.fields(headers).get("Nats-Pending-Messages", ""), headers)
        self._is_idle = code == 100
        # Also for a heartbeat: it ends the wait, and with it the measured silence.
        self._wake()

    def _ended(self, code: int, pending: str, headers: bytes) -> None:
        """A pull request is over: return its undelivered credit, or doubt the consumer."""
        if code in (404, 408, 409) and pending.isdecimal():
            self._outstanding -= int(pending)
        else:
            self._doubtful = (
                headers[9:80].partition(b"\r\n")[0].decode("utf-8", "replace") or "ended"
            )

    def _lost(self) -> None:
        self._doubtful = "the connection broke"
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # --- from messages to events -----------------------------------------------------------------

    async def _arrived(self) -> bool:
        """Whether there is a batch to hand over: full, or lingered for since its first message."""
        if not self._raw:
            await self._wait(1, SILENCE_SECONDS, silence=True)
        if not self._raw:
            return False
        wanted = self._batch
        if (left := self._position.left) is not None:
            wanted = min(wanted, left)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._linger
        # A full pull request announces more: lingering must not stop the flow.
        while len(self._raw) < wanted and not self._doubtful:
            rest = deadline - loop.time()
            if rest <= 0 or not await self._wait(wanted, rest):
                break
            await self._refill()
        return True

    async def _wait(self, wanted: int, seconds: float, *, silence: bool = False) -> bool:
        """Whether something happened within `seconds`; `silence` makes its absence a doubt."""
        self._wanted = wanted
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(seconds):
                await self._waiter
            return True
        except TimeoutError:
            if silence:
                self._doubtful = "no heartbeat"
            return False
        finally:
            self._waiter = None

    def _decoded(self) -> list[Event]:
        """The next batch, in order and without a gap; empty when the pipe is in doubt."""
        taken = self._raw[: self._batch]
        del self._raw[: len(taken)]
        events, found = self._position.read(taken, self._ack_start)
        if found:
            self._raw.clear()
            self._doubtful = f"sequence {found} came instead of {self._position.received + 1}"
        return events
