"""The position of a read in its history: the next message follows the last one, in the same stream.

Sequences are used again after a lost tail, so the last message itself is compared (docs/reliability.md).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Protocol

from bus.envelope import Event, digest
from bus.errors import HistoryDivergedError
from bus.jetstream import wire
from bus.transport import Head

_log = logging.getLogger(__name__)


class History(Protocol):
    """The reader's questions to the adapter about the stream itself."""

    async def head(self) -> Head:
        """First and last sequence, and when it was created."""
        ...

    async def at(self, sequence: int) -> Event | None:
        """The event at one sequence."""
        ...


class Position:
    """The position of one read of `history`, starting after `after`; a read without `live` ends."""

    def __init__(self, history: History, after: int, *, live: bool) -> None:
        self._history = history
        self._live = live
        #: The last received sequence.
        self.received = after
        self._until: int | None = None
        self._created_us = 0
        self._last: Event | None = None
        self._missed = 0

    @property
    def left(self) -> int | None:
        """How many events are still to come; None where there is no end."""
        return None if self._until is None else max(self._until - self.received, 0)

    async def check(self) -> None:
        """Raise HistoryDivergedError if the stream is not the one read so far."""
        head = await self._history.head()
        if self._created_us and head.created_us != self._created_us:
            raise HistoryDivergedError("the stream was created anew", created_us=head.created_us)
        if head.last_sequence < self.received:
            raise HistoryDivergedError(
                "the stream went back", read=self.received, last=head.last_sequence
            )
        if self.received and self.received + 1 < head.first_sequence:
            raise HistoryDivergedError(
                "the stream begins later", read=self.received, first=head.first_sequence
            )
        if self._last is not None:
            stored = await self._history.at(self.received)
            if stored is None or digest(stored) != digest(self._last):
                raise HistoryDivergedError("another event stands here", sequence=self.received)
        if not self._created_us:
            self._created_us = head.created_us
            self.received = max(self.received, head.first_sequence - 1)
            self._until = None if self._live else head.last_sequence

    def misses(self, sequence: int) -> bool:
        """Whether a sequence did not come for the second time: then it is missing in the history, not in the pipe."""
        if self._missed == sequence:
            return True
        self._missed = sequence
        return False

    def read(
        self, messages: Sequence[tuple[bytes, bytes, bytes, bytes]], start: bytes
    ) -> tuple[list[Event], int]:
        """The events of messages up to a gap, and the sequence after the gap (0 = no gap).

        `start` begins the reply subjects of the consumer. The same gap a second time raises HistoryDivergedError.
        """
        events: list[Event] = []
        length, expected = len(start), self.received + 1
        ahead = gap = 0
        for subject, reply, body, headers in messages:
            if reply.startswith(start):
                place, _, stored, _ = reply[length:].split(b".")
            else:
                place, stored = _place(reply)
            sequence = int(place)
            if sequence != expected:
                if self.misses(expected):
                    raise HistoryDivergedError(
                        "a sequence is missing", expected=expected, found=sequence
                    )
                gap = sequence
                break
            event = wire.read(subject, headers, body, sequence)
            bounded = wire.bounded(event, int(stored) // 1000)
            ahead += bounded is not event
            events.append(bounded)
            expected += 1
        if ahead:
            _log.warning(
                "%d events up to %d were stamped after they were stored", ahead, expected - 1
            )
        self.received = expected - 1
        if events:
            self._last = events[-1]
        return events, gap


def _place(reply: bytes) -> tuple[bytes, bytes]:
    """The stream sequence and the time of storing (ns) in a reply subject of any form (9, 11 or 12 tokens)."""
    tokens = reply.split(b".")
    first = 5 if len(tokens) == 9 else 7
    return tokens[first], tokens[first + 2]
