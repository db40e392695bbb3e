"""Connection limits of the webhook: accepts, refuses and closes connections.

A neighbor on the network can open connections faster than they are closed. So their number is bounded, in all and for
each address, far below the number of files that the process may open. At a bound, an older connection is closed: first the
connection that never completed a request and is open the longest, then the longest idle one. Only if all are
under a request, the new one is refused. So an API server gets in despite any number of idle connections.

Source: Linux manual, accept(2), getrlimit(2); Kubernetes, "Admission Webhook Good Practices".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Protocol

import msgspec

from bus.metrics import Metric, Sample


class ConnectionLimits(msgspec.Struct, frozen=True):
    """Limits of one connection, and the number of connections. An API server sends at most 600 requests at once."""

    #: Open connections in all, handshakes included.
    most: int = 1_000
    #: Of these, from one address.
    most_per_address: int = 700
    #: From the accept to the end of the TLS handshake.
    handshake_seconds: float = 5.0
    #: From the first byte of a request (of the first one: from the handshake) to the end of its headers.
    header_seconds: float = 10.0
    #: From the end of the headers to the end of the answer, in any case.
    request_seconds: float = 30.0
    #: Between two requests. The API server drops idle connections after 90 s. Were we first, its next review could
    #: meet a closed connection.
    idle_seconds: int = 120
    #: For a connection in closing, until it is cut.
    close_seconds: float = 5.0
    #: Request line and headers of one request.
    header_bytes: int = 64 * 1024
    #: Bytes of one request after its headers, in any encoding. An API server sends fewer: it accepts requests
    #: of 3 MiB, writes a byte as up to six, and adds the stored object and its own notes. Few of them are held at once.
    body_bytes: int = 256 * 1024 * 1024


class Guest(Protocol):
    """One connection, as the gate sees it."""

    address: str
    #: Whether a whole request has come over it.
    has_asked: bool
    #: When its last request ended (loop time); None while one is under way, or none has ended yet.
    idle_since: float | None

    def cut(self) -> None:
        """End the connection at once, without a word."""

    def sweep(self, now: float) -> None:
        """Cut it if its deadline is over (loop time)."""


class Gate:
    """The open connections of one server. ``names``: a client's certificate must name one of them; empty = any."""

    def __init__(self, limits: ConnectionLimits, names: Iterable[str] = ()) -> None:
        self.limits = limits
        self.names = frozenset(names)
        #: In the order of their accepts.
        self._guests: dict[Guest, None] = {}
        self._by_address: Counter[str] = Counter()
        #: Ended or refused connections, by reason.
        self.ended: Counter[str] = Counter()
        #: How often accepting paused because the machine had no file or memory for a connection.
        self.pauses = 0

    def __len__(self) -> int:
        return len(self._guests)

    def __iter__(self) -> Iterator[Guest]:
        return iter(tuple(self._guests))

    def has_room(self, address: str) -> bool:
        """Whether a connection from here is accepted; makes room if another can be closed."""
        if self._by_address[address] >= self.limits.most_per_address:
            if not self._make_room(address):
                return False
        elif len(self._guests) >= self.limits.most and not self._make_room(""):
            return False
        return True

    def enter(self, guest: Guest) -> None:
        """One more."""
        self._guests[guest] = None
        self._by_address[guest.address] += 1

    def leave(self, guest: Guest) -> None:
        """It is closed. Twice is fine."""
        if guest not in self._guests:
            return
        del self._guests[guest]
        self._by_address[guest.address] -= 1
        if not self._by_address[guest.address]:
            del self._by_address[guest.address]

    def _make_room(self, address: str) -> bool:
        found: Guest | None = None
        for guest in self._guests:
            if address and guest.address != address:
                continue
            if not guest.has_asked:
                found = guest
                break
            since = guest.idle_since
            if since is not None and (
                found is None or found.idle_since is None or since < found.idle_since
            ):
                found = guest
        if found is None:
            self.ended["refused"] += 1
            return False
        self.ended["crowded"] += 1
        self.leave(found)
        found.cut()
        return True

    def metrics(self) -> Iterator[Metric]:
        """Connections since the start, by result."""
        yield Metric(
            "bursar_webhook_connections",
            "gauge",
            "Open connections.",
            [Sample(len(self), {"state": "open"}), Sample(self.limits.most, {"state": "limit"})],
        )
        yield Metric(
            "bursar_webhook_connections_ended_total",
            "counter",
            "Connections that were ended or refused, by reason.",
            [Sample(n, {"reason": reason}) for reason, n in sorted(self.ended.items())],
        )
        yield Metric(
            "bursar_webhook_accept_pauses_total",
            "counter",
            "Pauses of accepting, because the process could open no more files.",
            [Sample(self.pauses)],
        )
