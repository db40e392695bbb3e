"""The transport contract kept in process: for tests, for replays of a file, for small tools. Not durable.

It keeps the same promises as JetStream as far as a list can: one order, a duplicate window (here without
end), expectations, live readers. Tests damage it on purpose through ``events``.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from fnmatch import fnmatchcase

import msgspec

from bus.envelope import Event, checked
from bus.errors import HistoryDivergedError, WrongExpectationError
from bus.transport import Expectation, Head


class MemoryTransport:
    """A history in a list. ``events[n].sequence == first_sequence + n`` unless a test breaks it."""

    def __init__(
        self, stream: str = "HISTORY", created_us: int = 1, first_sequence: int = 1
    ) -> None:
        self.stream = stream
        self.created_us = created_us
        self.first_sequence = first_sequence
        self.events: list[Event] = []
        self._known: dict[str, int] = {}
        self._stored = asyncio.Event()

    async def publish(
        self, events: Sequence[Event], *, expect: Expectation | None = None
    ) -> list[int]:
        """Store events, skipping known ids. See :class:`bus.transport.Transport`."""
        for event in events:
            checked(event)
        if expect is not None:
            last = max(
                (e.sequence for e in self.events if _under(e.subject, expect.subject)), default=0
            )
            if last != expect.last_sequence:
                raise WrongExpectationError(subject=expect.subject, last_sequence=last)
        sequences = []
        for event in events:
            sequence = self._known.get(event.id, 0)
            if not sequence:
                sequence = self._last() + 1
                self._known[event.id] = sequence
                self.events.append(msgspec.structs.replace(event, sequence=sequence))
            sequences.append(sequence)
        self._stored.set()
        self._stored = asyncio.Event()
        return sequences

    async def read(
        self, *, after: int, batch: int = 1000, linger_seconds: float = 0.02, live: bool = True
    ) -> AsyncIterator[list[Event]]:
        """Events in order, checked for gaps. See :class:`bus.transport.Transport`."""
        until = self._last()
        expected = max(after + 1, self.first_sequence)
        while True:
            stored = self._stored
            found = [
                e for e in self.events if e.sequence >= expected and (live or e.sequence <= until)
            ]
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

    def _last(self) -> int:
        return self.events[-1].sequence if self.events else self.first_sequence - 1


def _under(subject: str, pattern: str) -> bool:
    return fnmatchcase(subject, pattern.replace(">", "*"))
