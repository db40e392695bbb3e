"""Many requests sent in one piece and answered one by one: assigns each reply to its request.

A question is a protocol command with a reply subject of this exchange. The questions of one call are a
:class:`Round`: it ends with the last reply, on time-out, or when the connection breaks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

from bus.errors import PublishUnknownError
from bus.jetstream.connection import Connection, Inbox

#: A reply as it came: header block (empty without headers) and body.
Reply = tuple[bytes, bytes]


class Round:
    """The replies to questions 0 to n-1, each None until it is there."""

    def __init__(self, count: int) -> None:
        self.replies: list[Reply | None] = [None] * count
        self.missing = count
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def end(self) -> None:
        """Ends the waiting; an unread failure is not reported as forgotten."""
        if not self.done.cancel() and not self.done.cancelled():
            self.done.exception()

    def fail(self, reason: str) -> None:
        """End it now: whether the questions arrived is unknown."""
        if not self.done.done():
            self.done.set_exception(PublishUnknownError(reason=reason))


class Exchange:
    """The private inbox of one connection for replies, shared by all its publishes."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._waiting: dict[bytes, tuple[Round, int]] = {}
        self._count = 0
        self._inbox: Inbox | None = None
        connection.on_lost.add(self._lost)

    async def open(self) -> None:
        """Subscribe; needed once."""
        self._inbox = await self._connection.listen(self._take)

    async def ask(
        self, count: int, commands: Callable[[Iterator[bytes]], bytes], seconds: float
    ) -> list[Reply]:
        """The replies to `count` questions, in their order.

        `commands` gets as many reply subjects as it takes and returns the bytes to send. Raises
        PublishUnknownError when not all replies came within `seconds` or the connection broke,
        PermissionDeniedError when this user may not ask.
        """
        round, violations = Round(count), self._connection.violations
        tokens: list[bytes] = []
        try:
            await self._connection.send(commands(self._replies_to(round, tokens)))
            async with asyncio.timeout(seconds):
                await round.done
        except TimeoutError:
            self._connection.raise_for_violation(violations)
            raise PublishUnknownError(reason="no answer", missing=round.missing) from None
        finally:
            round.end()
            for token in tokens:
                self._waiting.pop(token, None)
        return [reply for reply in round.replies if reply is not None]

    def _replies_to(self, round: Round, tokens: list[bytes]) -> Iterator[bytes]:
        assert self._inbox is not None, "Exchange.open comes first"
        for index in range(len(round.replies)):
            self._count += 1
            token = b"%d" % self._count
            tokens.append(token)
            self._waiting[token] = (round, index)
            yield self._inbox.prefix + token

    def _take(self, subject: bytes, _reply: bytes, body: bytes, headers: bytes) -> None:
        found = self._waiting.pop(subject.rpartition(b".")[2], None)
        if found is None:
            return
        round, index = found
        round.replies[index] = (headers, body)
        round.missing -= 1
        if not round.missing and not round.done.done():
            round.done.set_result(None)

    def _lost(self) -> None:
        for round, _ in list(self._waiting.values()):
            round.fail("the connection broke")
