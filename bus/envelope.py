"""The event as it is stored: CloudEvents attributes, a JSON body, and its place in the history.

An :class:`Event` is the common value of all packages. A source creates the event without a sequence. The
transport numbers it, projections fold it, and the ledger's archive keeps it. Nothing in it depends on the transport: the canonical
bytes, and so the hash chain, are the same on NATS, in memory, in SQL and in an exported file.

On NATS the attributes travel as headers (CloudEvents NATS binding, binary mode: ``ce-id``, ``ce-source`` …) and
``Nats-Msg-Id`` repeats the id for the server's duplicate window. In files one event is one line of JSON
(CloudEvents JSON format), the body under ``data`` kept byte for byte.

Source: CloudEvents 1.0.2 (core, NATS binding, JSON format); docs/architecture.md.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Iterable
from functools import lru_cache

import msgspec

from bus import strict
from bus.clock import format_stamp, parse_stamp
from bus.errors import EnvelopeError, MalformedJsonError, TimestampError

#: Length of a NATS subject token made from a key; longer or unusual keys are replaced by their digest.
KEY_TOKEN = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")

#: First link of the hash chain: there is no event before the first one.
GENESIS = bytes(32)

#: The type of a message with an unreadable envelope. It is archived and parked like any poison.
MALFORMED = "malformed"

#: Largest version of a body's shape in the ledger's databases; the first one is 1.
LARGEST_VERSION = 2**31 - 1

#: Longest stored defect: it may quote a stranger's text.
LONGEST_DEFECT = 500

#: Control characters, and halves of surrogate pairs, invalid in UTF-8. The known parts of a malformed event from a
#: file.
_UNREADABLE = "the envelope could not be read"

_CONTROL = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
#: Stands where a subject's bytes were no UTF-8.
_REPLACED = "\ufffd"

_LIMITS = {"id": 512, "source": 256, "type": 128, "key": 256, "cluster": 64}


class Event(msgspec.Struct, frozen=True, gc=False):
    """One published event, in order and once.

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
    """One line of an exported history, CloudEvents JSON format with Bursar's extension attributes.

    The body is under ``data``, or where it is not JSON in one line under ``data_base64``, as CloudEvents has it.
    """

    id: str
    source: str
    type: str
    subject: str
    time: str
    data: msgspec.Raw = msgspec.Raw(b"")
    specversion: str = "1.0"
    cluster: str = "default"
    dataversion: int = 1
    sequence: int = 0
    datacontenttype: str = "application/json"
    data_base64: str | None = None


_line_decoder = msgspec.json.Decoder(Line)
_line_encoder = msgspec.json.Encoder()

#: Largest body of a line without encoding; the bus takes less.
_LARGEST_DATA = 2**20

#: Cluster and type as they stand in a subject.
SUBJECT_TOKENS = re.compile(r"[A-Za-z0-9_-]{1,64}\.[a-z0-9_-]{1,60}\.[a-z0-9_-]{1,60}")


def key_token(key: str) -> str:
    """A subject token for ``key``: itself where it is plain, else its digest, so no user text makes a subject."""
    if KEY_TOKEN.match(key):
        return key
    return _digest_token(key)


@lru_cache(maxsize=1_024)
def _digest_token(key: str) -> str:
    # The trees of quotas have such keys, and each append to a journal names its tree several times.
    return "h-" + hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def checked(event: Event) -> Event:
    """``event`` itself, if its attributes may enter the history.

    Raises EnvelopeError naming the attribute when one is empty, too long, out of range, or holds control characters.
    """
    if not 1 <= event.version <= LARGEST_VERSION:
        raise EnvelopeError(
            "an attribute is out of range", attribute="version", most=LARGEST_VERSION
        )
    for name, limit in _LIMITS.items():
        text = getattr(event, name)
        if not text and name != "key":
            raise EnvelopeError("an attribute is empty", attribute=name)
        if len(text) > limit:
            raise EnvelopeError("an attribute is too long", attribute=name, length=len(text))
        if _CONTROL.search(text):
            raise EnvelopeError("an attribute holds control characters", attribute=name)
    return event


def is_sound(event: Event) -> bool:
    """Whether the event can be published as it is: its attributes may enter, and cluster and type make a subject."""
    try:
        checked(event)
    except EnvelopeError:
        return False
    return SUBJECT_TOKENS.fullmatch(f"{event.cluster}.{event.type}") is not None


def event_of(subject: str, headers: dict[str, str] | None, body: bytes, sequence: int) -> Event:
    """The event in a stored message. Total: an envelope unreadable, or too odd for a database, becomes an event of
    type ``malformed``, storable in every database.
    """
    tokens = subject.split(".")
    cluster = tokens[1] if len(tokens) > 1 else ""
    try:
        if headers is None:
            raise EnvelopeError("the message has no headers")
        if _REPLACED in subject:
            # How many bytes one mark stands for is each reader's own: nothing may depend on it.
            raise EnvelopeError("the subject is no UTF-8")
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
        if len(tokens) != 5 or event.type != ".".join(tokens[2:4]):
            raise EnvelopeError("the type does not belong to the subject", subject=subject[:200])
        if key_token(event.key) != tokens[-1]:
            raise EnvelopeError("the key does not belong to the subject", subject=subject[:200])
        checked(event)
        if not is_sound(event):
            raise EnvelopeError("cluster and type make no subject of Bursar's")
        return event
    except KeyError as error:
        defect = f"header {error.args[0]} is missing"
    except (EnvelopeError, TimestampError, ValueError) as error:
        defect = str(error)
    if not SUBJECT_TOKENS.fullmatch(f"{cluster}.a.b"):
        cluster = ""
    defect = _CONTROL.sub("?", defect)[:LONGEST_DEFECT]
    return Event(
        cluster, MALFORMED, "", f"malformed/{sequence}", "bus", 0, body, 1, sequence, defect
    )


def canonical(event: Event) -> bytes:
    """The bytes under a digest of this event: every attribute on a line of its own, then the body.

    Attributes cannot hold line ends (see :func:`checked`), so no two events share their canonical bytes. The
    sequence is not among them: an event published again after a loss stays the same event.
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
    """One line of NDJSON (without its line end). :func:`from_line` reads it back to an equal event, any body
    included.

    An event of type ``malformed`` has no envelope to be read back: see :func:`projections.engine.restored.restored`.
    """
    line = Line(
        id=event.id,
        source=event.source,
        type=event.type,
        subject=event.key,
        time=format_stamp(event.time_us),
        data=msgspec.Raw(event.body),
        cluster=event.cluster,
        dataversion=event.version,
        sequence=event.sequence,
    )
    if _is_data(event.body):
        # One key less, in the words of the encoder: it comes last.
        return _line_encoder.encode(line).removesuffix(b',"data_base64":null}') + b"}"
    text = base64.b64encode(event.body).decode()
    whole = msgspec.structs.asdict(line) | {"data_base64": text}
    del whole["data"]
    return _line_encoder.encode(whole)


def _is_data(body: bytes) -> bool:
    """Whether a body survives as the ``data`` of a line, byte for byte."""
    if b"\n" in body or body.strip() != body:
        return False
    try:
        # The line around it is one level more.
        strict.well_formed(body, max_bytes=_LARGEST_DATA, max_depth=63)
    except MalformedJsonError:
        return False
    return True


def from_line(line: bytes) -> Event:
    """The event on one line of NDJSON. Raises EnvelopeError with the reason."""
    try:
        read = _line_decoder.decode(line)
        time_us = parse_stamp(read.time)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, TimestampError) as error:
        raise EnvelopeError("the line is no event", reason=str(error)) from error
    if read.specversion != "1.0":
        raise EnvelopeError("unknown CloudEvents version", specversion=read.specversion[:20])
    body = _body(read)
    defect = _UNREADABLE if read.type == MALFORMED else ""
    return checked(
        Event(
            read.cluster,
            read.type,
            read.subject,
            read.id,
            read.source,
            time_us,
            body,
            read.dataversion,
            read.sequence,
            defect,
        )
    )


def _body(read: Line) -> bytes:
    raw = bytes(read.data)
    if (read.data_base64 is None) == (not raw):
        raise EnvelopeError("the line has not exactly one of data and data_base64")
    try:
        if read.data_base64 is not None:
            return base64.b64decode(read.data_base64, validate=True)
        # Files of earlier versions: unreadable bytes, as text.
        return msgspec.json.decode(raw, type=bytes) if read.type == MALFORMED else raw
    except (binascii.Error, ValueError) as error:
        raise EnvelopeError("the body is no base64", reason=str(error)) from error
