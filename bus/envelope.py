"""The event as it is stored: CloudEvents attributes, a JSON body, and its place in the history.

An :class:`Event` is what every room of Bursar passes around. Sources make it without a sequence, the transport
gives it one, projections fold it, the ledger's archive keeps it. Nothing in it depends on the transport: the
canonical bytes, and so the hash chain, are the same on NATS, in memory, in SQL and in an exported file.

On NATS the attributes travel as headers (CloudEvents NATS binding, binary mode: ``ce-id``, ``ce-source`` …) and
``Nats-Msg-Id`` repeats the id for the server's duplicate window. In files one event is one line of JSON
(CloudEvents JSON format), the body under ``data`` kept byte for byte.

Source: CloudEvents 1.0.2 (core, NATS binding, JSON format); ``house.md`` section 3.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

import msgspec

from bus.clock import format_stamp, parse_stamp
from bus.errors import EnvelopeError, TimestampError

#: Length of a NATS subject token made from a key; longer or unusual keys are replaced by their digest.
KEY_TOKEN = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")

#: First link of the hash chain: there is no event before the first one.
GENESIS = bytes(32)

#: The type given to a message whose envelope cannot be read. It is archived and parked like any poison.
MALFORMED = "malformed"

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_LIMITS = {"id": 512, "source": 256, "type": 128, "key": 256, "cluster": 64}


class Event(msgspec.Struct, frozen=True, gc=False):
    """One thing said, once, in order.

    Identity is ``id``: two events with one id are one event. ``time_us`` is when the source observed it
    (microseconds UTC), never when the bus stored it. ``body`` is compact JSON, kept byte for byte.
    ``sequence`` is 0 until the transport has given it a place. ``defect`` is empty, or says why the envelope
    could not be read; then ``type`` is ``malformed`` and ``body`` the raw message.
    """

    cluster: str
    type: str
    key: str
    id: str
    source: str
    time_us: int
    body: bytes
    version: int = 1
    sequence: int = 0
    defect: str = ""

    @property
    def subject(self) -> str:
        """The NATS subject: ``bursar.<cluster>.<entity>.<participle>.<key token>``."""
        return f"bursar.{self.cluster}.{self.type}.{key_token(self.key)}"


class Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One line of an exported history, CloudEvents JSON format with the extension attributes Bursar adds."""

    id: str
    source: str
    type: str
    subject: str
    time: str
    data: msgspec.Raw
    specversion: str = "1.0"
    cluster: str = "default"
    dataversion: int = 1
    sequence: int = 0
    datacontenttype: str = "application/json"


_line_decoder = msgspec.json.Decoder(Line)
_line_encoder = msgspec.json.Encoder()


def key_token(key: str) -> str:
    """A subject token for ``key``: itself where it is plain, else its digest, so no user text makes a subject."""
    if KEY_TOKEN.match(key):
        return key
    return "h-" + hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def checked(event: Event) -> Event:
    """``event`` itself, if its attributes may enter the history.

    Raises EnvelopeError naming the attribute when one is empty, too long, or holds control characters.
    """
    for name, limit in _LIMITS.items():
        text = getattr(event, name)
        if not text and name != "key":
            raise EnvelopeError("an attribute is empty", attribute=name)
        if len(text) > limit:
            raise EnvelopeError("an attribute is too long", attribute=name, length=len(text))
        if _CONTROL.search(text):
            raise EnvelopeError("an attribute holds control characters", attribute=name)
    return event


def headers_of(event: Event) -> dict[str, str]:
    """The NATS headers of an event, in the order in which they are written."""
    return {
        "Nats-Msg-Id": event.id,
        "ce-specversion": "1.0",
        "ce-id": event.id,
        "ce-source": event.source,
        "ce-type": event.type,
        "ce-subject": event.key,
        "ce-time": format_stamp(event.time_us),
        "ce-dataversion": str(event.version),
    }


def event_of(subject: str, headers: dict[str, str] | None, body: bytes, sequence: int) -> Event:
    """The event in a stored message. Total: an unreadable envelope becomes an event of type ``malformed``."""
    tokens = subject.split(".")
    cluster = tokens[1] if len(tokens) > 1 else ""
    try:
        if headers is None:
            raise EnvelopeError("the message has no headers")
        event = Event(
            cluster,
            headers["ce-type"],
            headers["ce-subject"],
            headers["ce-id"],
            headers["ce-source"],
            parse_stamp(headers["ce-time"]),
            body,
            int(headers.get("ce-dataversion", "1")),
            sequence,
        )
        if len(tokens) != 5 or event.type != f"{tokens[2]}.{tokens[3]}":
            raise EnvelopeError("the type does not belong to the subject", subject=subject[:200])
        return event
    except KeyError as error:
        defect = f"header {error.args[0]} is missing"
    except (EnvelopeError, TimestampError, ValueError) as error:
        defect = str(error)
    return Event(
        cluster, MALFORMED, "", f"malformed/{sequence}", "bus", 0, body, 1, sequence, defect
    )


def canonical(event: Event) -> bytes:
    """The bytes that a digest of this event covers: every attribute on a line of its own, then the body.

    Attributes cannot hold line ends (see :func:`checked`), so no two events share their canonical bytes.
    The sequence is not among them: an event that is published again after a loss stays the same event.
    """
    head = (
        f"{event.id}\n{event.source}\n{event.type}\n{event.cluster}\n{event.key}\n"
        f"{event.time_us}\n{event.version}\n{event.defect}\n"
    )
    return head.encode() + event.body


def digest(event: Event) -> bytes:
    """SHA-256 of one event, 32 bytes."""
    return hashlib.sha256(canonical(event)).digest()


def link(previous: bytes, event: Event) -> bytes:
    """The chain's next value: SHA-256 over the previous value, the sequence (8 bytes, big endian) and the event."""
    return hashlib.sha256(previous + event.sequence.to_bytes(8, "big") + canonical(event)).digest()


def chain(previous: bytes, events: Iterable[Event]) -> list[bytes]:
    """The chain value after each of ``events``."""
    values = []
    for event in events:
        previous = link(previous, event)
        values.append(previous)
    return values


def to_line(event: Event) -> bytes:
    """One line of NDJSON (without its line end) that :func:`from_line` reads back to an equal event."""
    body = event.body if not event.defect else msgspec.json.encode(event.body)
    return _line_encoder.encode(
        Line(
            id=event.id,
            source=event.source,
            type=event.type,
            subject=event.key,
            time=format_stamp(event.time_us),
            data=msgspec.Raw(body),
            cluster=event.cluster,
            dataversion=event.version,
            sequence=event.sequence,
        )
    )


def from_line(line: bytes) -> Event:
    """The event on one line of NDJSON. Raises EnvelopeError naming what is wrong with it."""
    try:
        read = _line_decoder.decode(line)
        time_us = parse_stamp(read.time)
    except (msgspec.DecodeError, TimestampError) as error:
        raise EnvelopeError("the line is no event", reason=str(error)) from error
    if read.specversion != "1.0":
        raise EnvelopeError("unknown CloudEvents version", specversion=read.specversion[:20])
    return checked(
        Event(
            read.cluster,
            read.type,
            read.subject,
            read.id,
            read.source,
            time_us,
            bytes(read.data),
            read.dataversion,
            read.sequence,
        )
    )
