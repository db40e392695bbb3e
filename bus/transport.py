"""The contract of a bus: publish, read in order, look at one place.

Two adapters keep it, and one suite (``tests/bus/test_transport_contract.py``) holds both to it:
:mod:`bus.jetstream` (NATS JetStream) and :mod:`bus.memory` (in process, for tests and small tools).
Projections and sources know only this page.

Source: docs/architecture.md.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from typing import Protocol

import msgspec

from bus.envelope import Event
from bus.errors import EnvelopeError

#: A subject or a pattern of subjects: the tokens of an event's subject, and wildcards.
_PATTERN = re.compile(r"[A-Za-z0-9_.*>-]{1,512}")


class Head(msgspec.Struct, frozen=True):
    """The beginning and the end of a stream, and its identity.

    ``created_us`` distinguishes a re-created stream from the one before. An empty stream has ``last_sequence`` =
    ``first_sequence`` - 1.
    """

    stream: str
    created_us: int
    first_sequence: int
    last_sequence: int


class Expectation(msgspec.Struct, frozen=True):
    """Publish only if the last event under ``subject`` (wildcards allowed) has this sequence; 0 = none yet."""

    subject: str
    last_sequence: int

    def __post_init__(self) -> None:
        """Raises EnvelopeError for invalid headers: they would be sent beside the events."""
        if not _PATTERN.fullmatch(self.subject):
            raise EnvelopeError("an expectation's subject is none", subject=self.subject[:80])
        if self.last_sequence < 0:
            raise EnvelopeError("an expectation's sequence is none", sequence=self.last_sequence)


def says_the_same(stored: Event, ours: Event) -> bool:
    """Whether two events of one id are equal, so ours need not be stored again.

    They are when cluster, type, key and body agree. `time` and `source` may differ, as two watchers of one
    cluster report the same change; so may the body when the version does, as a writer and its newer self do
    during an upgrade. Anything else is an id used twice (docs/wrong-input.md E4).
    """
    return (stored.cluster, stored.type, stored.key) == (ours.cluster, ours.type, ours.key) and (
        stored.version != ours.version or stored.body == ours.body
    )


class Transport(Protocol):
    """The operations of a bus. All methods may raise BusUnavailableError (try again) after the adapter's own retries."""

    async def publish(
        self, events: Sequence[Event], *, expect: Expectation | None = None
    ) -> list[int]:
        """Store ``events`` in order and return their sequences, one each.

        An event with an id in the duplicate window is not stored again; its place in the answer is the stored one's
        sequence, or 0 if the bus does not report it. When this returns, all of them are durable. With ``expect``,
        all are stored or none: WrongExpectationError when another writer was faster. Events already stored under
        the same ids are no other writer: publishing again after an unknown outcome answers as the first time would
        have. Raises DuplicateIdError when an id is stored with another content (:func:`says_the_same`); without an
        expectation other events of the call may be stored by then. Raises EnvelopeError for an invalid event,
        before anything is stored. Raises PublishUnknownError for an unknown outcome: publish the same ids again.
        """
        ...

    def read(
        self, *, after: int, batch: int = 1000, linger_seconds: float = 0.02, live: bool = True
    ) -> AsyncIterator[list[Event]]:
        """Events after sequence ``after`` in order, in lists of 1 to ``batch``.

        After 0 means from the beginning, wherever the stream begins; after any other sequence, that one or the next
        must be there. A list is delivered when it is full or ``linger_seconds`` after its first event. Live reading
        never ends. With ``live=False`` reading ends at the last event there was when it began. Each event is
        yielded once, with no gap: HistoryDivergedError when a sequence is missing or the stream went backwards.
        """
        ...

    async def head(self) -> Head:
        """The stream's first and last sequence, now."""
        ...

    async def at(self, sequence: int) -> Event | None:
        """The event at one sequence; None where there is none."""
        ...

    async def close(self) -> None:
        """Let go of the connection. Closing twice is fine."""
        ...
