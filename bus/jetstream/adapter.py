"""The transport on a JetStream stream: made if missing, checked, published to, read from.

Source: `bus.transport` (the contract), `bus.streams` (the promises of the stream).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import msgspec
from tenacity import (
    AsyncRetrying,
    retry_if_exception,
    stop_after_delay,
    wait_exponential_jitter,
)

from bus.clock import parse_stamp
from bus.envelope import Event, key_token
from bus.errors import BusUnavailableError, HistoryDivergedError
from bus.jetstream import wire
from bus.jetstream.connection import ApiError, Connection, Credentials
from bus.jetstream.exchange import Exchange
from bus.jetstream.guard import GuardLine, guard_lines, refusal_of, varz_of
from bus.jetstream.publisher import Publisher
from bus.jetstream.reader import Reader
from bus.jetstream.tls import Tls
from bus.streams import Stream
from bus.transport import Expectation, Head

_NOT_FOUND = 10059
_NAME_IN_USE = 10058
_NO_MESSAGE = 10037
#: Answers of a cluster of servers below quorum, or without a leader.
_NOT_YET = (10005, 10008)
#: So long such a cluster is given to make a stream.
MEET_SECONDS = 20.0
_NANO = 1_000_000_000
#: Of closed blocks on the servers' disks.
COMPRESSION = "s2"

#: Subjects of answers, and of messages between processes.
INBOX_PREFIX = "_INBOX_bursar"
#: Bytes of a message of another process; longer ones are cut.
LONGEST_WORD = 256


class _State(msgspec.Struct):
    messages: int
    bytes: int
    first_seq: int
    last_seq: int


class _Info(msgspec.Struct):
    created: str
    state: _State


class _Stored(msgspec.Struct):
    subject: str
    seq: int
    time: str
    hdrs: bytes = b""
    data: bytes = b""


class _Got(msgspec.Struct):
    message: _Stored


class JetStream:
    """A history on a NATS server. Fulfils :class:`bus.transport.Transport`.

    One connection serves any number of concurrent readers and publishers of one event loop.
    """

    def __init__(self, connection: Connection, stream: Stream, publisher: Publisher) -> None:
        self.stream = stream
        self._connection = connection
        self._publisher = publisher
        #: The last event published here, or reported by the stream's leader; 0 before.
        self.sequence = 0

    @classmethod
    async def connect(
        cls,
        url: str,
        stream: Stream,
        *,
        credentials: Credentials = None,
        tls: Tls | None = None,
        name: str = "bursar",
        inbox_prefix: str = INBOX_PREFIX,
        create: bool = True,
        connect_seconds: float = 10.0,
        ack_seconds: float = 5.0,
        attempts: int = 5,
    ) -> JetStream:
        """A connected transport with an existing stream.

        A missing stream is created from `stream`, unless `create` is off; an existing one stays as it is, and
        :meth:`guard` reports its faults. `inbox_prefix` is the only subject tree this user must be allowed to
        subscribe to. A publish is tried `attempts` times of `ack_seconds` each.

        Raises BusUnavailableError without a server or stream, PermissionDeniedError for a refused log-in,
        BusTlsError for a connection without the encryption of `tls`.
        """
        connection = await Connection.open(
            url,
            credentials=credentials,
            tls=tls,
            name=name,
            inbox_prefix=inbox_prefix,
            connect_seconds=connect_seconds,
            api_seconds=connect_seconds,
        )
        try:
            await _ensure(connection, stream, create)
            exchange = Exchange(connection)
            await exchange.open()
        except BaseException:
            await connection.close()
            raise
        publisher = Publisher(
            connection, exchange, stream, ack_seconds=ack_seconds, attempts=attempts
        )
        return cls(connection, stream, publisher)

    @property
    def connected(self) -> bool:
        """Whether the connection is up now; it comes back by itself."""
        return self._connection.connected

    @property
    def given_up(self) -> bool:
        """Whether the connection is down and will not come back by itself."""
        return self._connection.given_up

    @property
    def last_error(self) -> str:
        """The last thing the connection reported, such as a missing permission; else empty."""
        return self._connection.last_error

    async def publish(
        self, events: Sequence[Event], *, expect: Expectation | None = None
    ) -> list[int]:
        """Store `events` in windows of at most 1000, each all or nothing. See the contract.

        Raises DuplicateIdError for a stored id with another content, EnvelopeError for an invalid event, before
        anything is sent; windows before another failure are stored.
        """
        sequences = await self._publisher.publish(events, expect=expect)
        self.sequence = max([self.sequence, *sequences[-1:]])
        return sequences

    def read(
        self, *, after: int, batch: int = 1000, linger_seconds: float = 0.02, live: bool = True
    ) -> AsyncIterator[list[Event]]:
        """Events in order, across reconnects. See the contract.

        A live read waits for an unavailable server; a finite one raises BusUnavailableError after 30 s.
        """
        reader = Reader(
            self._connection,
            self,
            self.stream.name,
            after=after,
            batch=batch,
            linger_seconds=linger_seconds,
            live=live,
        )
        return reader.batches()

    async def head(self) -> Head:
        """First and last sequence, as the stream's leader knows them. See the contract.

        Raises HistoryDivergedError when the stream is no longer there.
        """
        info = msgspec.json.decode(await self._info(), type=_Info)
        last = info.state.last_seq
        # An empty stream says 0 for the first as well as for the last.
        first = info.state.first_seq if info.state.messages else last + 1
        self.sequence = max(self.sequence, last)
        return Head(self.stream.name, parse_stamp(info.created), first, last)

    async def size(self) -> int:
        """Bytes of the stream's messages, before they are compressed. Raises as :meth:`head` does."""
        return msgspec.json.decode(await self._info(), type=_Info).state.bytes

    async def at(self, sequence: int) -> Event | None:
        """The event at one sequence. See the contract.

        Asked of the leader, in the only form with the stored header block unchanged: a direct get adds headers to
        it, so a message with an odd block, or with none, would be another event here than in a read. Only the
        leader's answer counts for a missing message, too.
        """
        if sequence < 1:
            return None
        try:
            answer = await self._connection.ask(
                f"STREAM.MSG.GET.{self.stream.name}", b'{"seq":%d}' % sequence
            )
        except ApiError as error:
            if error.code == _NO_MESSAGE:
                return None
            raise BusUnavailableError(reason=str(error)) from error
        got = msgspec.json.decode(answer, type=_Got).message
        event = wire.read(got.subject.encode(), got.hdrs, got.data, sequence)
        return wire.bounded(event, parse_stamp(got.time))

    async def announce(self, topic: str, word: str) -> None:
        """Publish a text to the other processes of this history subscribed to ``topic`` now; it is in no history."""
        await self._connection.announce(self._subject(topic), word.encode())

    async def subscribe(self, topic: str, take: Callable[[str], None]) -> None:
        """Have ``take`` called with each text of ``topic`` until this transport is closed. It must be short and not raise."""

        def received(body: bytes) -> None:
            take(body[:LONGEST_WORD].decode("ascii", "replace"))

        await self._connection.subscribe(self._subject(topic), received)

    def _subject(self, topic: str) -> str:
        """Below the inboxes, the only subjects this user must be allowed to subscribe to."""
        return f"{INBOX_PREFIX}.{self.stream.name}.{key_token(topic)}"

    async def guard(self, *monitor_urls: str) -> list[GuardLine]:
        """The safe and unsafe properties of this bus, one line each.

        `monitor_urls` are addresses of all its servers, see :func:`bus.jetstream.guard.varz_of`; without them
        the property `sync_interval` stays UNKNOWN, as no other client can ask for it.
        """
        info: dict[str, Any] = msgspec.json.decode(await self._info())
        varz = [await varz_of(url, self._connection.tls) for url in monitor_urls]
        return guard_lines(self.stream, info, self._connection.server_info, varz)

    async def refusal(self, *monitor_urls: str) -> str:
        """Why one of its servers is unhealthy, by addresses as in :meth:`guard`; "" where none says so."""
        for url in monitor_urls:
            if found := await refusal_of(url, self._connection.tls):
                return found
        return ""

    async def amend(self, **changes: object) -> None:
        """Change the stream's configuration. Few users have this right.

        Raises PermissionDeniedError for the others, BusUnavailableError where the server refuses the change.
        """
        found = msgspec.json.decode(await self._info())["config"]
        body = msgspec.json.encode(found | changes)
        try:
            await self._connection.ask(f"STREAM.UPDATE.{self.stream.name}", body)
        except ApiError as error:
            raise BusUnavailableError(reason=str(error), stream=self.stream.name) from error

    async def settle(self) -> bool:
        """Compress a stream of an earlier version, and remove the age left by an interrupted trimming.

        Whether the stream was stored uncompressed until now: blocks are compressed from the server's next start on.
        Raises the errors of :meth:`amend`.
        """
        config = msgspec.json.decode(await self._info())["config"]
        # An administrator may have given it more replicas than the settings ask for.
        wanted = _compression(config.get("num_replicas", 1))
        is_other = bool(config.get("compression", "none") != wanted)
        if is_other or config.get("max_age"):
            await self.amend(compression=wanted, max_age=0)
        return is_other and wanted == COMPRESSION

    async def original(self) -> int:
        """Of a mirror: the last sequence of the history itself, as its own server says now.

        Raises BusUnavailableError while the origin is unreachable, or has no history.
        """
        try:
            found = await self._connection.ask(
                "STREAM.INFO.HISTORY", domain=self.stream.mirrored_domain
            )
        except ApiError as error:
            raise BusUnavailableError(reason=str(error)) from error
        return msgspec.json.decode(found, type=_Info).state.last_seq

    async def close(self) -> None:
        """Let go of the connection. Closing twice is fine."""
        await self._connection.close()

    async def _info(self) -> bytes:
        try:
            return await self._connection.ask(f"STREAM.INFO.{self.stream.name}")
        except ApiError as error:
            if error.code == _NOT_FOUND:
                raise HistoryDivergedError(
                    "the stream is not there", stream=self.stream.name
                ) from error
            raise BusUnavailableError(reason=str(error)) from error


async def _ensure(connection: Connection, stream: Stream, create: bool) -> None:
    try:
        await connection.ask(f"STREAM.INFO.{stream.name}")
    except ApiError as error:
        if error.code != _NOT_FOUND or not create:
            raise BusUnavailableError(reason=str(error), stream=stream.name) from error
    else:
        return
    try:
        # Servers of a newly started cluster may not all have met.
        async for attempt in AsyncRetrying(
            retry=retry_if_exception(lambda e: isinstance(e, ApiError) and e.code in _NOT_YET),
            stop=stop_after_delay(MEET_SECONDS),
            wait=wait_exponential_jitter(multiplier=0.05, max=1.0),
            reraise=True,
        ):
            with attempt:
                await connection.ask(
                    f"STREAM.CREATE.{stream.name}", msgspec.json.encode(configuration(stream))
                )
    except ApiError as error:
        # Another process of ours was faster, with its own idea of the stream: the guard compares.
        if error.code != _NAME_IN_USE:
            raise BusUnavailableError(reason=str(error), stream=stream.name) from error


def configuration(stream: Stream) -> dict[str, Any]:
    """`stream` in the words of JetStream's API. Every setting with a loss of events is off."""
    made = _made(stream)
    if stream.mirrored_domain:
        # Settings for publishers only; a mirror does not accept them.
        for name in ("subjects", "duplicate_window", "allow_atomic", "allow_batched"):
            del made[name]
        api = f"$JS.{stream.mirrored_domain}.API"
        made["mirror"] = {"name": "HISTORY", "external": {"api": api}}
    return made


def _compression(replicas: int) -> str:
    """The compression of a stream with this number of replicas.

    Replicated streams are not compressed: where three nats-servers 2.15 were killed in turn, such a one lost stored events.
    """
    return COMPRESSION if replicas == 1 else "none"


def _made(stream: Stream) -> dict[str, Any]:
    return {
        "name": stream.name,
        "subjects": list(stream.subjects),
        "retention": "limits",
        "storage": "file",
        "discard": "new",
        "max_consumers": -1,
        "max_msgs": -1,
        "max_bytes": -1,
        "max_age": 0,
        "max_msgs_per_subject": -1,
        "max_msg_size": stream.max_message_bytes,
        "num_replicas": stream.replicas,
        "compression": _compression(stream.replicas),
        "duplicate_window": stream.duplicate_window_seconds * _NANO,
        "deny_delete": True,
        "deny_purge": True,
        "allow_rollup_hdrs": False,
        "allow_msg_ttl": False,
        "allow_atomic": True,
        "allow_batched": True,
        "allow_direct": True,
    }
