"""Trims the beginning of a stream by age, the only way in JetStream where deletes and purges are denied.

The server drops messages from the first one on, as long as each is older than ``max_age``, before it answers. So
the trimming sets ``max_age`` to the age of the last event to drop, and removes it at once. The server stops at the
first younger message. The protected event, the end of reading and sealing, is an hour younger: a slow answer or a
small step of the server's clock drops no more.

A process killed in between leaves ``max_age`` set. The ledger's writer removes it at its start.

Source: nats-server 2.15, `server/filestore.go` (UpdateConfig, expireMsgs); docs/history.md.
"""

from __future__ import annotations

from typing import Any

import msgspec

from bus.clock import SECOND_US, parse_stamp
from bus.crashpoints import crashpoint
from bus.errors import BusUnavailableError
from bus.jetstream.connection import ApiError, Connection
from bus.jetstream.guard import LEAST_AGE_SECONDS

#: The last dropped event is at least this much older than the protected event.
MARGIN_US = 3_600 * SECOND_US
#: The server reads its clock ten times a second.
SLACK_US = SECOND_US
#: A trimming never sets a shorter age.
LEAST_AGE_US = LEAST_AGE_SECONDS * SECOND_US


class _State(msgspec.Struct):
    first_seq: int
    last_seq: int


class _Info(msgspec.Struct):
    config: dict[str, Any]
    state: _State
    ts: str = ""


class _Delivered(msgspec.Struct):
    stream_seq: int = 0


class _Consumer(msgspec.Struct):
    delivered: _Delivered


class _Consumers(msgspec.Struct):
    total: int = 0
    consumers: list[_Consumer] | None = None


class _Stored(msgspec.Struct):
    time: str


class _Got(msgspec.Struct):
    message: _Stored


class HeadTrimming:
    """The beginning of one stream. All methods raise BusUnavailableError, and PermissionDeniedError without the right."""

    def __init__(self, connection: Connection, stream: str) -> None:
        self._connection = connection
        self._stream = stream

    async def first(self) -> int:
        """The first event of the stream, once no age limits it."""
        info = await self._info()
        if info.config.get("max_age"):
            info = await self._limited(0)
        return info.state.first_seq

    async def due(self, until: int, sealed: int, keep_us: int) -> int:
        """The age of the event ``until``, in microseconds; 0 where it and those before it may not be dropped yet.

        ``sealed``: the last event read by the ledger and sealed in segments. Unread events stay, too.
        """
        info = await self._info()
        protected = min(sealed, info.state.last_seq, *await self._readers())
        if not info.state.first_seq <= until < protected:
            return 0
        last_us = await self._stored_us(until)
        age_us = parse_stamp(info.ts) - last_us - SLACK_US
        if age_us < max(keep_us, LEAST_AGE_US):
            return 0
        if await self._stored_us(protected) < last_us + MARGIN_US:
            return 0
        # A first event stored while the clock was ahead stops the server until it is old enough.
        return 0 if await self._stored_us(info.state.first_seq) > last_us else age_us

    async def drop(self, until: int, age_us: int) -> bool:
        """Drop the events up to ``until`` with their :meth:`due` age ``age_us``; whether they are gone."""
        crashpoint("bus_trim.before_limit")
        try:
            await self._limited(age_us)
            crashpoint("bus_trim.after_limit")
        finally:
            info = await self._limited(0)
        crashpoint("bus_trim.after_limit_is_gone")
        return info.state.first_seq > until

    async def _limited(self, age_us: int) -> _Info:
        config = (await self._info()).config | {"max_age": age_us * 1_000}
        body = msgspec.json.encode(config)
        return msgspec.json.decode(await self._ask("STREAM.UPDATE", body), type=_Info)

    async def _readers(self) -> list[int]:
        """The last event delivered to each consumer. The server lists no mirrors."""
        found: list[int] = []
        while True:
            body = b'{"offset":%d}' % len(found)
            page = msgspec.json.decode(await self._ask("CONSUMER.LIST", body), type=_Consumers)
            found += [one.delivered.stream_seq for one in page.consumers or ()]
            if not page.consumers or len(found) >= page.total:
                return found

    async def _stored_us(self, sequence: int) -> int:
        answer = await self._ask("STREAM.MSG.GET", b'{"seq":%d}' % sequence)
        return parse_stamp(msgspec.json.decode(answer, type=_Got).message.time)

    async def _info(self) -> _Info:
        return msgspec.json.decode(await self._ask("STREAM.INFO"), type=_Info)

    async def _ask(self, request: str, body: bytes = b"") -> bytes:
        try:
            return await self._connection.ask(f"{request}.{self._stream}", body)
        except ApiError as error:
            raise BusUnavailableError(reason=str(error), stream=self._stream) from error
