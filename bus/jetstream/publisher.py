"""Publishing in windows: one atomic batch is one buffer, one acknowledgement and one flush to disk.

A window of up to 1000 events goes out as an atomic batch (ADR-50), each message with its `Nats-Msg-Id`. The server
refuses a batch with any known id (err 10201) and stores nothing of it. Then the window is published message by
message, a hundred in one piece: a known id answers with its sequence and costs no flush, so a repeated window is
cheap and a partly new one pays one flush for each new message. A few messages without an expectation go out like
that at once: the server stages a batch on disk, as slow as some ten flushes.

With an expectation this would not be all or none, so the ids are checked first: each message goes out as an atomic
batch of its own with an impossible expected sequence, and is refused as a duplicate (10201) or as stale (10071) but
never stored. This costs a staging file each (milliseconds on one replica): affordable for a handful of decisions,
not for a list of a thousand pods. `Nats-Expected-Last-Msg-Id` would ask cheaply, but must never be sent: on a
replicated stream nats-server 2.15.1 proposes such a message before it compares. The mismatch while applying it is a
"critical write error" and stops the stream on every replica.

A known id is not accepted blindly: another writer may have used it for something else
(docs/wrong-input.md E4 and E5), so the stored message is read back and compared.

Source: ADR-50; nats-server 2.15.1, measured with one and with three replicas: in a batch 10201
comes before 10071; at most 1000 messages per batch and 50 open batches per stream.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence

import msgspec
from tenacity import (
    AsyncRetrying,
    retry_if_exception_type,
    stop_after_attempt,
    wait_exponential_jitter,
)

from bus.envelope import Event
from bus.errors import (
    BusUnavailableError,
    DuplicateIdError,
    EnvelopeError,
    PublishUnknownError,
    RetryableError,
    WrongExpectationError,
)
from bus.jetstream import wire
from bus.jetstream.commands import Commands, expectation
from bus.jetstream.connection import Connection, token
from bus.jetstream.exchange import Exchange, Reply
from bus.streams import Stream
from bus.transport import Expectation, says_the_same

#: Cap of the server for one atomic batch (err 10199 beyond it).
MAX_WINDOW = 1000

#: Bytes of bodies until a window is closed early: bounds memory here and staging in the server.
MAX_WINDOW_BYTES = 4 * 1024 * 1024

#: A window of so few messages is no batch. Measured, milliseconds as a batch and singly: 10.7 and 1.4
#: of two, 15.7 and 9.5 of eight, 25.9 and 47 of sixteen.
MOST_UNSTAGED = 8

#: Messages sent singly in one piece. Each may cost a flush, and all have to be answered in one
#: wait.
MAX_SINGLES = 100

#: Windows one connection has open at a time; the server allows 50 per stream for all its clients.
MAX_OPEN_WINDOWS = 8

_DUPLICATE_IN_BATCH = 10201
_WRONG_SEQUENCE = 10071
_TOO_LARGE = 10054


#: The header lines added by a window to its longest message.
_LONGEST_EXTRA = (
    f"Nats-Batch-Id: {token()}\r\nNats-Batch-Sequence: {MAX_WINDOW}\r\nNats-Batch-Commit: 1\r\n"
)


class _Refusal(msgspec.Struct):
    code: int = 0
    err_code: int = 0
    description: str = ""


class _First(msgspec.Struct):
    first_seq: int = 0


class _Began(msgspec.Struct):
    state: _First


class Ack(msgspec.Struct):
    """The server's answer to a publish. `seq` is the last sequence of a batch."""

    stream: str = ""
    seq: int = 0
    duplicate: bool = False
    count: int = 1
    error: _Refusal | None = None


_ack = msgspec.json.Decoder(Ack)


class Publisher:
    """The writing half of the adapter. Safe for concurrent calls; each call keeps its own order."""

    def __init__(
        self,
        connection: Connection,
        exchange: Exchange,
        stream: Stream,
        *,
        ack_seconds: float = 5.0,
        attempts: int = 5,
    ) -> None:
        self._connection = connection
        self._exchange = exchange
        self._stream = stream
        self._ack_seconds = ack_seconds
        self._attempts = attempts
        self._open = asyncio.Semaphore(MAX_OPEN_WINDOWS)
        self._commands = Commands(stream.max_message_bytes)

    async def publish(
        self, events: Sequence[Event], *, expect: Expectation | None = None
    ) -> list[int]:
        """Store `events` in order; their sequences. See :class:`bus.transport.Transport`.

        Raises ValueError for an expectation over more than 1000 events: they could not be all or
        none.
        """
        if len({event.id for event in events}) != len(events):
            return await self._publish_doubled(events, expect)
        if expect is not None:
            if len(events) > MAX_WINDOW:
                raise ValueError(f"an expectation covers at most {MAX_WINDOW} events")
            return await self._expecting(events, expect) if events else []
        parts = list(windows(events))
        if len(parts) > 1:
            # Invalid events are found before the first window goes out, as in a single one.
            for event in events:
                self._commands.check(event, _LONGEST_EXTRA)
        sequences: list[int] = []
        for window in parts:
            sequences += await self._window(window, None)
        return sequences

    async def _expecting(self, events: Sequence[Event], expect: Expectation) -> list[int]:
        """One window. For a subject with a trimmed last event the server reports none."""
        try:
            return await self._window(events, expect)
        except WrongExpectationError as error:
            if not expect.last_sequence or error.last_sequence:
                raise
            info = await self._connection.ask(f"STREAM.INFO.{self._stream.name}")
            if msgspec.json.decode(info, type=_Began).state.first_seq <= expect.last_sequence:
                raise
        return await self._window(events, Expectation(expect.subject, 0))

    async def _publish_doubled(
        self, events: Sequence[Event], expect: Expectation | None
    ) -> list[int]:
        first: dict[str, Event] = {}
        for event in events:
            _same_or_raise(first.setdefault(event.id, event), event)
        unique = list(first.values())
        sequences = await self.publish(unique, expect=expect)
        places = dict(zip(first, sequences, strict=True))
        return [places[event.id] for event in events]

    async def _window(self, events: Sequence[Event], expect: Expectation | None) -> list[int]:
        """One window, tried again with the same ids while the bus does not answer."""
        unknown = False
        try:
            async for attempt in AsyncRetrying(
                retry=retry_if_exception_type(RetryableError),
                stop=stop_after_attempt(self._attempts),
                wait=wait_exponential_jitter(multiplier=0.05, max=1.0),
                reraise=True,
            ):
                with attempt:
                    try:
                        async with self._open:
                            await self._connection.ready(self._ack_seconds)
                            return await self._store(events, expect)
                    except PublishUnknownError:
                        unknown = True
                        raise
        except BusUnavailableError as error:
            if unknown:
                raise PublishUnknownError(reason=str(error)) from error
            raise
        raise AssertionError("tenacity either returns or raises")

    async def _store(self, events: Sequence[Event], expect: Expectation | None) -> list[int]:
        if len(events) == 1:
            # Here a known id comes before an expectation, too.
            lines = expectation(expect) if expect is not None else ""
            return await self._settle(events, await self._each(events, lambda: lines), expect)
        if expect is None and len(events) <= MOST_UNSTAGED:
            return await self._settle(events, await self._each(events), None)
        batch = token()
        replies = await self._exchange.ask(
            1, lambda to: self._commands.batch(events, expect, batch, to), self._ack_seconds
        )
        ack = self._read_ack(replies[0])
        if ack.error is None:
            if ack.count != len(events):
                raise PublishUnknownError(reason="the batch is incomplete", count=ack.count)
            return list(range(ack.seq - len(events) + 1, ack.seq + 1))
        if ack.error.err_code != _DUPLICATE_IN_BATCH:
            raise self._refused(ack.error, expect)
        if expect is None:
            return await self._settle(events, await self._each(events), None)
        return await self._store_expecting(events, expect)

    async def _store_expecting(self, events: Sequence[Event], expect: Expectation) -> list[int]:
        """Sequences of a window with some known ids: theirs, new ones for the others."""
        known = await self._known(events)
        if not known:
            raise BusUnavailableError(reason="another writer is storing the same ids now")
        doubled = [events[index] for index in known]
        stored = await self._settle(doubled, await self._each(doubled), expect)
        places = dict(zip(known, stored, strict=True))
        rest = [event for index, event in enumerate(events) if index not in places]
        added = iter(await self._store(rest, expect) if rest else ())
        return [places[index] if index in places else next(added) for index in range(len(events))]

    async def _known(self, events: Sequence[Event]) -> list[int]:
        """The indexes of `events` with an id in the duplicate window; stores nothing."""
        never = "Nats-Expected-Last-Subject-Sequence: 9007199254740991\r\n"
        batch = f"Nats-Batch-Sequence: 1\r\nNats-Batch-Commit: 1\r\n{never}Nats-Batch-Id: "
        acks = await self._each(events, lambda: f"{batch}{token()}\r\n")
        codes = [ack.error.err_code if ack.error else 0 for ack in acks]
        for ack, code in zip(acks, codes, strict=True):
            if ack.error and code not in (_DUPLICATE_IN_BATCH, _WRONG_SEQUENCE):
                raise self._refused(ack.error, None)
        return [index for index, code in enumerate(codes) if code == _DUPLICATE_IN_BATCH]

    async def _settle(
        self, events: Sequence[Event], acks: Sequence[Ack], expect: Expectation | None
    ) -> list[int]:
        """Sequences out of single acknowledgements, duplicates compared."""
        for ack in acks:
            if ack.error is not None:
                raise self._refused(ack.error, expect)
        doubled = [index for index, ack in enumerate(acks) if ack.duplicate]
        if doubled:
            await self._verified(
                [events[index] for index in doubled],
                [acks[index].seq for index in doubled],
                expect,
            )
        return [ack.seq for ack in acks]

    async def _each(
        self, events: Sequence[Event], extra: Callable[[], str] = lambda: ""
    ) -> list[Ack]:
        """One acknowledgement per event, each event sent with header lines from `extra`."""
        acks: list[Ack] = []
        for start in range(0, len(events), MAX_SINGLES):
            part = events[start : start + MAX_SINGLES]

            def commands(to: Iterator[bytes], part: Sequence[Event] = part) -> bytes:
                return self._commands.singles(part, extra, to)

            replies = await self._exchange.ask(len(part), commands, self._ack_seconds)
            acks += [self._read_ack(reply) for reply in replies]
        return acks

    async def _verified(
        self, ours: Sequence[Event], sequences: Sequence[int], expect: Expectation | None
    ) -> list[int]:
        """`sequences`, once the stored events are proven equal to ours.

        Raises DuplicateIdError for other content; with a meanwhile stale expectation WrongExpectationError, as then
        another writer was faster.
        """
        asked = [index for index, sequence in enumerate(sequences) if sequence]
        stored = await self._stored([sequences[index] for index in asked])
        for index, event in zip(asked, stored, strict=True):
            try:
                _same_or_raise(event, ours[index])
            except DuplicateIdError as error:
                if expect is not None and await self._last(expect.subject) != expect.last_sequence:
                    raise WrongExpectationError(subject=expect.subject) from error
                raise
        return list(sequences)

    async def _stored(self, sequences: Sequence[int]) -> list[Event]:
        start = f"PUB $JS.API.DIRECT.GET.{self._stream.name} ".encode()

        def commands(to: Iterator[bytes]) -> bytes:
            parts = []
            for sequence in sequences:
                body = b'{"seq":%d}' % sequence
                parts.append(b"%b%b %d\r\n%b\r\n" % (start, next(to), len(body), body))
            return b"".join(parts)

        replies = await self._exchange.ask(len(sequences), commands, self._ack_seconds)
        return [
            _direct(reply, sequence) for reply, sequence in zip(replies, sequences, strict=True)
        ]

    async def _last(self, subject: str) -> int:
        body = msgspec.json.encode({"last_by_subj": subject})
        message = await self._connection.request(f"$JS.API.DIRECT.GET.{self._stream.name}", body)
        return int((message.headers or {}).get("Nats-Sequence", "0"))

    def _read_ack(self, reply: Reply) -> Ack:
        headers, body = reply
        if wire.status(headers):
            raise BusUnavailableError(
                reason="no stream takes this subject", status=wire.status(headers)
            )
        try:
            ack = _ack.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise PublishUnknownError(reason="unreadable acknowledgement") from error
        if ack.error is None and ack.stream != self._stream.name:
            raise BusUnavailableError(reason="another stream took the event", stream=ack.stream)
        return ack

    def _refused(self, refusal: _Refusal, expect: Expectation | None) -> Exception:
        if refusal.err_code == _WRONG_SEQUENCE:
            number = refusal.description.rpartition(" ")[2]
            return WrongExpectationError(
                subject=expect.subject if expect else "", reason=refusal.description,
                last_sequence=int(number) if number.isdecimal() else 0,
            )  # fmt: skip
        if refusal.err_code == _TOO_LARGE:
            return EnvelopeError("the event is too large", reason=refusal.description)
        return BusUnavailableError(reason=refusal.description, code=refusal.err_code)


def windows(events: Sequence[Event]) -> Iterator[Sequence[Event]]:
    """`events` in order, cut after 1000 events or 4 MiB of bodies, whichever comes first."""
    start = size = 0
    for index, event in enumerate(events):
        size += len(event.body)
        if index > start and (index - start == MAX_WINDOW or size > MAX_WINDOW_BYTES):
            yield events[start:index]
            start, size = index, len(event.body)
    if start < len(events):
        yield events[start:]


def _direct(reply: Reply, sequence: int) -> Event:
    """The event in the answer to a direct get. Its own headers follow the stored ones."""
    headers, body = reply
    if wire.status(headers):
        raise PublishUnknownError(reason="the stored event cannot be read", sequence=sequence)
    subject = wire.fields(headers).get("Nats-Subject", "")
    return wire.read(subject.encode("utf-8", "surrogateescape"), headers, body, sequence)


def _same_or_raise(stored: Event, ours: Event) -> None:
    if not says_the_same(stored, ours):
        raise DuplicateIdError(id=ours.id, sequence=stored.sequence)
