"""The commands that publish events, as bytes: an atomic batch, or one by one. Pure.

Source: the NATS client protocol (HPUB); ADR-50 (atomic batches).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from bus.envelope import Event, key_token
from bus.jetstream import wire
from bus.transport import Expectation


def expectation(expect: Expectation) -> str:
    """The header lines for the expectation of a subject."""
    return (
        f"Nats-Expected-Last-Subject-Sequence: {expect.last_sequence}\r\n"
        f"Nats-Expected-Last-Subject-Sequence-Subject: {expect.subject}\r\n"
    )


class Commands:
    """The commands for one stream with messages of at most `max_bytes`."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._starts: dict[tuple[str, str], str] = {}

    def check(self, event: Event, extra: str) -> None:
        """Raise EnvelopeError for an event not allowed on the bus, with header lines `extra`."""
        wire.subject_start(event.cluster, event.type)
        wire.headers(event, extra, self._max_bytes)

    def batch(
        self, events: Sequence[Event], expect: Expectation | None, batch: str, to: Iterator[bytes]
    ) -> bytes:
        """The commands of one atomic batch; only the last message asks for an answer."""
        parts: list[bytes] = []
        last = len(events)
        extra = f"Nats-Batch-Id: {batch}\r\nNats-Batch-Sequence: "
        for number, event in enumerate(events, 1):
            lines = f"{extra}{number}\r\n"
            reply = b""
            if number == 1 and expect is not None:
                lines += expectation(expect)
            if number == last:
                lines += "Nats-Batch-Commit: 1\r\n"
                reply = next(to) + b" "
            self._command(parts, event, lines, reply)
        return b"".join(parts)

    def singles(
        self, events: Sequence[Event], extra: Callable[[], str], to: Iterator[bytes]
    ) -> bytes:
        """The commands of events one by one, each with header lines from `extra` and an answer of its own."""
        parts: list[bytes] = []
        for event in events:
            self._command(parts, event, extra(), next(to) + b" ")
        return b"".join(parts)

    def _command(self, parts: list[bytes], event: Event, extra: str, reply: bytes) -> None:
        """Append the HPUB command of one event; raises EnvelopeError for an invalid one."""
        kind = (event.cluster, event.type)
        start = self._starts.get(kind)
        if start is None:
            start = self._starts[kind] = wire.subject_start(*kind)
        body = event.body
        headers = wire.headers(event, extra, self._max_bytes)
        parts.append(
            b"HPUB %b%b %b%d %d\r\n%b%b\r\n"
            % (
                start.encode(),
                key_token(event.key).encode(),
                reply,
                len(headers),
                len(headers) + len(body),
                headers,
                body,
            )
        )
