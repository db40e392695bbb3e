"""Opens the lines of a watch, tells their kinds apart, and refuses unreadable ones. Pure.

Source: Kubernetes API reference, meta/v1 WatchEvent and Status; docs/reliability.md.
"""

from __future__ import annotations

import hashlib

import msgspec

from bus import strict
from bus.envelope import Event
from bus.errors import BursarError, DuplicateIdError, MalformedJsonError, ObservationError
from bus.events.observations import ObservationRefused
from bus.kube.watch import cutting
from bus.kube.watch.contract import refusal
from bus.kube.watch.records import LONGEST_ID, Record

CHANGES = frozenset({"ADDED", "MODIFIED", "DELETED"})
#: Longest reason in a refusal.
LONGEST_REASON = 200

#: Bytes of a line around its type and its object, as an API server writes it.
_AROUND = len('{"type":"","object":}')


class _Line(msgspec.Struct):
    type: str = ""
    object: msgspec.Raw = msgspec.Raw(b"")


class _Versioned(msgspec.Struct, rename="camel"):
    resource_version: str = ""


class _Bookmark(msgspec.Struct):
    metadata: _Versioned | None = None


class _Details(msgspec.Struct, rename="camel"):
    retry_after_seconds: int | None = None


class _Status(msgspec.Struct):
    code: int | None = None
    details: _Details | None = None


_line_decoder = msgspec.json.Decoder(_Line)
_bookmark_decoder = msgspec.json.Decoder(_Bookmark)
_status_decoder = msgspec.json.Decoder(_Status)


def opened(line: bytes) -> tuple[str, bytes]:
    """The type and the raw object of a line; the type is "" where it has none. The object is not
    looked at yet.

    Raises MalformedJsonError for a line without valid JSON around its object, or with a doubled key.
    """
    try:
        read = _line_decoder.decode(line)
    except msgspec.ValidationError:
        return "", b""
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        # The decoder also checks skipped bytes. A cut line does not end.
        return _cut(line)
    raw = bytes(read.object)
    # Where nothing but these two keys has room, neither can be there twice.
    if len(line.strip()) != _AROUND + len(read.type) + len(raw):
        return _cut(line)
    return read.type, raw


def _cut(line: bytes) -> tuple[str, bytes]:
    """The same of any line, by its brackets."""
    found = cutting.members(line)
    written = found.get(b'"type"', b'""')
    change = strict.loads(written, max_bytes=len(written))
    return (change if isinstance(change, str) else ""), found.get(b'"object"', b"")


def bookmark(raw: bytes) -> str:
    """The version of a BOOKMARK's object; "" without a usable one (A5)."""
    try:
        metadata = _bookmark_decoder.decode(raw).metadata
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""
    version = metadata.resource_version if metadata else ""
    return version if len(version) <= LONGEST_ID else ""


def failure(raw: bytes, resource: str) -> BursarError:
    """The error in an ERROR's object for the watch on ``resource``; an unreadable one is an outage."""
    try:
        status = _status_decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        status = _Status()
    delay = status.details.retry_after_seconds if status.details else None
    return refusal(
        status.code or 500,
        verb="watch",
        resource=resource,
        delay_seconds=1.0 if delay is None else float(min(max(delay, 0), 300)),
        resumed=True,
    )


def refused(record: Record, resource: str, error: MalformedJsonError | ObservationError) -> Event:
    """``observation.refused`` for an untranslatable record: the reason and a digest of its content, never the
    content.
    """
    digest = hashlib.sha256(record.object).hexdigest()
    fact = ObservationRefused(
        resource=resource,
        reason=f"{type(error).__name__}: {error}"[:LONGEST_REASON],
        digest=digest,
        size_bytes=len(record.object),
    )
    return fact.event(
        cluster=record.cluster,
        key=digest[:32],
        id=f"{fact.wire_type}/{resource}/{digest}",
        source=record.source,
        time_us=record.time_us,
    )


def with_distinct_ids(events: list[Event], error: DuplicateIdError) -> list[Event]:
    """``events``, with a digest of the body in an id already used for another body.

    A restored store of a cluster reuses versions: both contents were observed, so both are published. Raises
    ``error`` when the id had the digest already: then it is forged.
    """
    distinct = []
    for event in events:
        if event.id == error.fields["id"]:
            digest = hashlib.sha256(event.body).hexdigest()[:16]
            if event.id.endswith(f"/{digest}"):
                raise error
            event = msgspec.structs.replace(event, id=f"{event.id}/{digest}")
        distinct.append(event)
    return distinct
