"""Shared parts of all readers: unusable answers, strict bodies, and rejected times.

Source: docs/wrong-input.md.
"""

from __future__ import annotations

from bus import strict
from bus.clock import SECOND_US, parse_stamp
from bus.errors import MalformedJsonError, TimestampError
from bus.events.notebooks import Evidence, Outcome
from bus.notebooks.contract import Peer, Reply
from bus.notebooks.prober import ProbeResponse

#: Largest body to read; the adapter lets no more through.
LARGEST_BODY = 262_144
#: Most kernels or terminals of one server.
MOST_ENTRIES = 1_000
#: How far a server's clock may be ahead before its stamp is clamped.
SKEW_US = 120 * SECOND_US

_LOGIN = frozenset({301, 302, 303, 307, 308, 401, 403, 407})


def unread(source: str, reply: Reply) -> Evidence | None:
    """The evidence of an unreadable answer; None = it has status 200.

    A required log-in, by redirect or by status, is "refused"; it differs from unreachable, and neither is idle.
    """
    if not isinstance(reply, ProbeResponse):
        return Evidence(source=source, outcome="unreachable", fault=reply.fault)
    if reply.status == 200:
        return None
    outcome: Outcome = "refused" if reply.status in _LOGIN else "unreachable"
    return Evidence(source=source, outcome=outcome, fault=f"http_{reply.status}")


def malformed(source: str, fault: str, flags: tuple[str, ...] = ()) -> Evidence:
    """Evidence of an answer with unreadable content."""
    return Evidence(source=source, outcome="malformed", fault=fault, flags=flags)


def json_of(body: bytes) -> object:
    """The strict JSON of a body; ``...`` where it is none, since null is a value."""
    try:
        return strict.loads(body, max_bytes=LARGEST_BODY, max_depth=16)
    except MalformedJsonError:
        return ...


def stamped(value: object, peer: Peer, observed_us: int) -> tuple[int | None, str]:
    """The instant of a server's stamp and its flag; None where there is no stamp, or none with a zone."""
    if not isinstance(value, str):
        return None, ""
    try:
        return accepted(parse_stamp(value), peer, observed_us)
    except TimestampError:
        return None, ""


def accepted(us: int, peer: Peer, observed_us: int) -> tuple[int, str]:
    """A server's time as far as it can be true: not beyond the observation and its skew, not before the pod's start."""
    if us > observed_us + SKEW_US:
        return observed_us, "future"
    if us < peer.started_us:
        return peer.started_us, "before_start"
    return us, ""
