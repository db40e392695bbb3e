"""The bytes of one event on NATS: headers in one fixed order, then the body.

Writing in a fixed order lets reading be one match of a pattern over the header block; any other
order, case or spacing is read the slow way by :func:`bus.envelope.event_of`, with the same
result.

Source: NATS client protocol (HPUB, HMSG); CloudEvents NATS binding; `bus.envelope.headers_of` for the order.
"""

from __future__ import annotations

import re

import msgspec

from bus.clock import SECOND_US, format_stamp, parse_stamp
from bus.envelope import SUBJECT_TOKENS, Event, checked, event_of, key_token
from bus.errors import EnvelopeError, TimestampError

#: How far a source's clock may run ahead of the server's: nothing was observed later than this after it was stored.
AHEAD_US = 300 * SECOND_US

_START = b"NATS/1.0\r\n"

#: The header block written by :func:`head`; JetStream's own headers follow it (`Nats-Batch-Id` …). Only values
#: storable in every database are read this way: other lengths, control characters and a version out of range are
#: named by :func:`bus.envelope.event_of`.
_HEAD = re.compile(
    r"NATS/1\.0\r\nNats-Msg-Id: ([^\x00-\x1f\x7f]{1,512})\r\nce-specversion: 1\.0\r\nce-id: \1\r\n"
    r"ce-source: ([^\x00-\x1f\x7f]{1,256})\r\nce-type: ([^\x00-\x1f\x7f]{1,128})\r\n"
    r"ce-subject: ([^\x00-\x1f\x7f]{0,256})\r\nce-time: ([^\x00-\x1f\x7f]+)\r\n"
    r"ce-dataversion: ([1-9][0-9]{0,8})\r\n(?:Nats-[^\r\n]*\r\n)*\r\n"
)


def head(event: Event) -> str:
    """The header block of `event` without its closing line; a batch can add its own.

    Raises EnvelopeError when an attribute may not enter the history.
    """
    id, source, type, key = event.id, event.source, event.type, event.key
    # One look at all attributes together; only odd ones are examined one by one.
    if (
        not f"{id}{source}{type}{key}".isprintable()
        or len(id) > 512
        or not (id and source and type)
        or len(source) > 256
        or len(type) > 128
        or len(key) > 256
    ):
        checked(event)
    return (
        f"NATS/1.0\r\nNats-Msg-Id: {id}\r\nce-specversion: 1.0\r\nce-id: {id}\r\n"
        f"ce-source: {source}\r\nce-type: {type}\r\nce-subject: {key}\r\n"
        f"ce-time: {format_stamp(event.time_us)}\r\nce-dataversion: {event.version}\r\n"
    )


def subject_start(cluster: str, type: str) -> str:
    """`bursar.<cluster>.<type>.`; raises EnvelopeError where these make not three tokens."""
    if not SUBJECT_TOKENS.fullmatch(f"{cluster}.{type}"):
        raise EnvelopeError(
            "cluster and type make no subject", cluster=cluster[:80], type=type[:80]
        )
    return f"bursar.{cluster}.{type}."


def headers(event: Event, extra: str, most_bytes: int) -> bytes:
    """The whole header block of `event`, with the header lines of `extra`.

    Raises EnvelopeError with the invalid part: an attribute, or an event larger than `most_bytes` with its headers.
    """
    try:
        block = f"{head(event)}{extra}\r\n".encode()
    except UnicodeEncodeError as error:
        raise EnvelopeError("an attribute is no Unicode text", reason=error.reason) from error
    size = len(block) + len(event.body)
    if size > most_bytes:
        raise EnvelopeError("the event is too large", bytes=size, most=most_bytes, id=event.id[:80])
    return block


def subject(event: Event) -> str:
    """The checked subject of `event`."""
    return subject_start(event.cluster, event.type) + key_token(event.key)


def read(subject: bytes, headers: bytes, body: bytes, sequence: int) -> Event:
    """The event in a stored message. Total, as `event_of` is."""
    try:
        place = subject.decode()
        match = _HEAD.fullmatch(headers.decode())
        if match is not None:
            id, source, type, key, time, version = match.groups()
            tokens = place.split(".")
            if len(tokens) == 5:
                _, cluster, entity, participle, token = tokens
                is_ours = f"{entity}.{participle}" == type and key_token(key) == token
                if is_ours and SUBJECT_TOKENS.fullmatch(f"{cluster}.{type}"):
                    stamp = parse_stamp(time)
                    return Event(
                        cluster, type, key, id, source, stamp, body, int(version), sequence
                    )
    except (UnicodeDecodeError, TimestampError):
        pass
    return event_of(
        subject.decode("utf-8", "replace"), fields(headers) if headers else None, body, sequence
    )


def bounded(event: Event, stored_us: int) -> Event:
    """`event`, observed no later than :data:`AHEAD_US` after it was stored (docs/wrong-input.md E10).

    A stamp in the future would move the ledger's moment there, and charge all open intervals until then. The bound
    follows from the stored message alone, so every reader has the same event. A stamp of the past stays: recorded
    histories are published long after they were observed.
    """
    latest_us = stored_us + AHEAD_US
    return (
        event if event.time_us <= latest_us else msgspec.structs.replace(event, time_us=latest_us)
    )


def fields(headers: bytes) -> dict[str, str]:
    """A header block as a dictionary, without a status line; of equal names the last counts.

    An invalid UTF-8 value holds halves of surrogate pairs, so different values stay different in every reader.
    """
    found = {}
    for line in headers.split(b"\r\n")[1:]:
        name, colon, value = line.partition(b":")
        if colon:
            found[name.strip().decode("ascii", "replace")] = value.strip().decode(
                "utf-8", "surrogateescape"
            )
    return found


def status(headers: bytes) -> int:
    """The status of a message by the server itself (100, 404 …); 0 for any other."""
    if headers.startswith(_START):
        return 0
    code = headers[9:12]
    return int(code) if code.isdigit() else 0
