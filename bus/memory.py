"""The transport contract kept in process: for tests, for replays of a file, for small tools. Not durable.

It keeps the same promises as JetStream as far as a list can: one order, a duplicate window (here without
end), expectations, live readers. Tests damage it on purpose through ``events``.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import AsyncIterator, Sequence
from fnmatch import fnmatchcase

import msgspec

from bus.envelope import Event, checked
from bus.errors import DuplicateIdError, HistoryDivergedError, WrongExpectationError
from bus.transport import Expectation, Head, says_the_same


class MemoryTransport:
    """A history in a list. ``events[n].sequence == first_sequence + n``, except in tests of broken histories."""

    def __init__(
        self, stream: str = "HISTORY", created_us: int = 1, first_sequence: int = 1
    ) -> None:
        self.stream = stream
        self.created_us = created_us
        self.first_sequence = first_sequence
        self.events: list[Event] = []
        self._known: dict[str, Event] = {}
        self._stored = asyncio.Event()

    async def publish(
        self, events: Sequence[Event], *, expect: Expectation | None = None
    ) -> list[int]:
        """Store events, skipping known ids. See :class:`bus.transport.Transport`."""
        for event in events:
            checked(event)
        self._check(events, expect)
        sequences = []
        for event in events:
            stored = self._known.get(event.id)
            if stored is None:
                stored = msgspec.structs.replace(event, sequence=self._last() + 1)
                self._known[event.id] = stored
                self.events.append(stored)
            sequences.append(stored.sequence)
        self._stored.set()
        self._stored = asyncio.Event()
        return sequences

    async def read(
        self, *, after: int, batch: int = 1000, linger_seconds: float = 0.02, live: bool = True
    ) -> AsyncIterator[list[Event]]:
        """Events in order, checked for gaps. See :class:`bus.transport.Transport`."""
        until = self._last()
        if after and after + 1 < self.first_sequence:
            raise HistoryDivergedError("the stream begins later", read=after)
        expected = max(after + 1, self.first_sequence)
        while True:
            if self._last() < expected - 1:
                raise HistoryDivergedError("the stream went back", last=self._last())
            stored = self._stored
            begin = bisect_left(self.events, expected, key=_sequence)
            end = len(self.events) if live else bisect_left(self.events, until + 1, key=_sequence)
            found = self.events[begin:end]
            for start in range(0, len(found), batch):
                part = found[start : start + batch]
                for event in part:
                    if event.sequence != expected:
                        raise HistoryDivergedError(
                            "a sequence is missing", expected=expected, found=event.sequence
                        )
                    expected += 1
                yield part
            if not live:
                return
            await stored.wait()

    async def head(self) -> Head:
        """First and last sequence."""
        return Head(self.stream, self.created_us, self.first_sequence, self._last())

    async def at(self, sequence: int) -> Event | None:
        """The event at ``sequence``, or None."""
        return next((e for e in self.events if e.sequence == sequence), None)

    async def close(self) -> None:
        """Nothing to let go."""

    def _check(self, events: Sequence[Event], expect: Expectation | None) -> None:
        seen: dict[str, Event] = {}
        other = None
        for event in events:
            first = self._known.get(event.id) or seen.setdefault(event.id, event)
            if not says_the_same(first, event):
                other = event
        if expect is not None and (other or not all(e.id in self._known for e in events)):
            under = (e.sequence for e in reversed(self.events) if _under(e.subject, expect.subject))
            last = next(under, 0)
            if last != expect.last_sequence:
                raise WrongExpectationError(subject=expect.subject, last_sequence=last)
        if other is not None:
            raise DuplicateIdError(id=other.id)

    def _last(self) -> int:
        return self.events[-1].sequence if self.events else self.first_sequence - 1


def _sequence(event: Event) -> int:
    return event.sequence


def _under(subject: str, pattern: str) -> bool:
    return fnmatchcase(subject, pattern.replace(">", "*"))
