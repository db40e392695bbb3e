"""Reads one watch or list record and its common fields: the shared half of all translate() functions.

Everything here is strict where a wrong guess would charge the wrong object (uid, name, version), and lenient where
the ledger can flag and go on (stamps, labels). Other records raise: the source then writes ``observation.refused``
and lists again, since the record could have been a delete.

Source: Kubernetes API reference, meta/v1 ObjectMeta; docs/reliability.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Protocol, TypeVar

import msgspec

from bus import strict
from bus.envelope import Event
from bus.errors import MalformedJsonError, ObservationError
from bus.events.pods import Owner
from bus.events.vocabulary import Fact
from bus.kube.watch import cutting
from bus.kube.watch.labels import LabelPolicy

#: Largest body of a fact in bytes: a message of the stream carries no more.
LARGEST_BODY = 64 * 1024
#: Longest accepted uid and resourceVersion; Kubernetes writes 36 and at most 20 characters.
LONGEST_ID = 128
#: Longest object name (RFC 1123 subdomain).
LONGEST_NAME = 253
#: Longest published stamp; a longer one is cut, and so stays unreadable.
LONGEST_STAMP = 40

#: Largest accepted record. etcd keeps 1.5 MiB of an object, and an API server writes ``<``, ``>`` and ``&`` of it
#: as six characters each.
LARGEST_RECORD = 12 * 1024 * 1024

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_NUL = re.compile(rb"(?<!\\)((?:\\\\)*+)\\u0000")

T = TypeVar("T")


class TooLargeError(ObservationError):
    """The fact is larger than a message may be.

    Publish less of the object, if less can be published; it is there.
    """


class Record(msgspec.Struct, frozen=True, gc=False):
    """One observation of one object, as a source received it.

    ``change`` is ADDED, MODIFIED, DELETED (watch) or LISTED (an item of a list). ``object`` is its
    JSON, untouched. ``time_us`` is when the source received it (microseconds UTC), ``source`` the
    name the event is published under.
    """

    change: str
    object: bytes
    time_us: int
    cluster: str
    source: str


class Translate(Protocol):
    """How a kind of object becomes a fact: pure, stateless, allow-listed.

    Raises only MalformedJsonError or ObservationError, for a record to park.
    """

    def __call__(self, record: Record, labels: LabelPolicy, /) -> Event:
        """The one event of this record."""
        ...


class OwnerReference(msgspec.Struct, rename="camel"):
    """An entry of ``metadata.ownerReferences``."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class Metadata(msgspec.Struct, rename="camel"):
    """The publishable part of ``metadata``. Everything else is never decoded."""

    uid: str
    name: str
    resource_version: str
    namespace: str | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerReference] | None = None


class _Identified(msgspec.Struct):
    uid: str


class _Unread(msgspec.Struct):
    metadata: _Identified


class _Versioned(msgspec.Struct, rename="camel"):
    uid: str
    resource_version: str


class _Metadata(msgspec.Struct):
    metadata: _Versioned


class _Named(msgspec.Struct):
    name: str = ""
    namespace: str = ""


class _Unnamed(msgspec.Struct):
    metadata: _Named


class _Managed(msgspec.Struct):
    time: str = ""
    subresource: str = ""


class _ManagedFields(msgspec.Struct, rename="camel"):
    managed_fields: list[_Managed] = []


class _Written(msgspec.Struct):
    metadata: _ManagedFields


_uid_decoder = msgspec.json.Decoder(_Unread)
_version_decoder = msgspec.json.Decoder(_Metadata)
_name_decoder = msgspec.json.Decoder(_Unnamed)
_written_decoder = msgspec.json.Decoder(_Written)

#: Errors of a decoder for unreadable bytes.
_UNDECODABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def decoded(raw: bytes, kind: type[T]) -> T:
    """The object in ``raw``, of the shape of ``kind``. Fields of ``kind`` are strict JSON; others are skipped.

    Raises MalformedJsonError (not strict JSON) or ObservationError (not this shape). Neither
    repeats any content.
    """
    # The API server accepts NUL in annotations and variables: refusing it would let a tenant hide a
    # pod.
    if b"\\u0000" in raw:
        raw = _NUL.sub(rb"\1\\ufffd", raw)
    try:
        return msgspec.convert(_value(raw, kind), kind)
    except msgspec.ValidationError as error:
        raise ObservationError("the object does not fit its kind", reason=str(error)) from None


def _value(raw: bytes, kind: type) -> object:
    # Nearly all objects are strict as a whole, and proven so in a tenth of the time.
    try:
        return strict.loads(_without_managed_fields(raw), max_bytes=LARGEST_RECORD)
    except MalformedJsonError as error:
        fault = error
    # Raised here and not above, so that the error has no context.
    if len(raw) > LARGEST_RECORD:
        raise fault
    return strict.loads(cutting.picked(raw, kind), max_bytes=LARGEST_RECORD)


def _without_managed_fields(raw: bytes) -> bytes:
    """``raw`` without ``managedFields``: half of an object's bytes, and never read.

    They end an object's metadata, which goes before its ``spec``. Inside of text the quotes would be escaped, so neither mark
    can stand in one. Opaque parameters may hold both marks, behind the first ``spec``.
    """
    start = raw.find(b',"managedFields":[')
    end = raw.find(b']},"spec":', start)
    if start < 0 or end < 0 or raw.find(b'},"spec":', 0, start) >= 0:
        return raw
    return raw[:start] + raw[end + 1 :]


def identified(metadata: Metadata) -> Metadata:
    """``metadata`` itself, once its uid, name and version are valid.

    Raises ObservationError with the field: empty, too long, or with control characters.
    """
    _plain("uid", metadata.uid, LONGEST_ID)
    _plain("resourceVersion", metadata.resource_version, LONGEST_ID)
    _plain("name", metadata.name, LONGEST_NAME)
    # Both are parts of the event's id, and a slash separates these.
    if "/" in metadata.uid or "/" in metadata.resource_version:
        raise ObservationError("an identity holds a slash")
    return metadata


def namespaced(metadata: Metadata) -> str:
    """The required namespace of an object. Raises ObservationError."""
    return _plain("namespace", metadata.namespace or "", LONGEST_NAME)


def stamp(text: str | None) -> str | None:
    """A stamp as it was written; the fold interprets unreadable ones."""
    if not text:
        return None
    return text if len(text) <= LONGEST_STAMP else text[:LONGEST_STAMP]


def controller(metadata: Metadata) -> Owner | None:
    """The object's controller; None without a controller, or without a usable reference."""
    for reference in metadata.owner_references or ():
        if reference.controller:
            if not (usable(reference.uid, LONGEST_ID) and usable(reference.name, LONGEST_NAME)):
                return None
            if not usable(reference.kind, LONGEST_NAME):
                return None
            return Owner(reference.kind, reference.name, reference.uid)
    return None


def event_of(fact: Fact, record: Record, *, key: str, uid: str, resource_version: str) -> Event:
    """``fact`` as the event of ``record``, with the same id in every watcher of this object version.

    Raises TooLargeError when its body is larger than a message may be.
    """
    event = fact.event(
        cluster=record.cluster,
        key=key,
        id=f"{fact.wire_type}/{uid}/{resource_version}",
        source=record.source,
        time_us=record.time_us,
    )
    if len(event.body) > LARGEST_BODY:
        raise TooLargeError(size=len(event.body), limit=LARGEST_BODY)
    return event


def identity(event: Event) -> tuple[str, str]:
    """The uid and the resourceVersion in an event of :func:`event_of`."""
    _, uid, version, *_ = event.id.split("/")
    return uid, version


def _skipping(decoder: msgspec.json.Decoder[T], raw: bytes) -> T | None:
    """The fields of ``decoder`` in ``raw``, whatever bytes the others hold; None where they are unreadable."""
    try:
        return decoder.decode(raw)
    except _UNDECODABLE:
        pass
    try:
        return decoder.decode(cutting.picked(raw, decoder.type))
    except (*_UNDECODABLE, MalformedJsonError):
        return None


def uid_of(raw: bytes) -> str:
    """The uid of an untranslatable object; "" where even the uid is unreadable.

    A listed object exists, readable or not.
    """
    found = _skipping(_uid_decoder, raw)
    return found.metadata.uid if found and usable(found.metadata.uid, LONGEST_ID) else ""


def version_of(raw: bytes) -> tuple[str, str]:
    """The uid and the resourceVersion of an otherwise unread object; both "" where they are unreadable."""
    found = _skipping(_version_decoder, raw)
    if found is None:
        return "", ""
    both = found.metadata.uid, found.metadata.resource_version
    # As in an event's id: a slash separates its parts.
    is_plain = all(usable(one, LONGEST_ID) and "/" not in one for one in both)
    return both if is_plain else ("", "")


def status_written(raw: bytes) -> str | None:
    """The newest time in ``managedFields`` of the status subresource; None without a readable one."""
    found = _skipping(_written_decoder, raw)
    if found is None:
        return None
    entries = found.metadata.managed_fields
    return stamp(max((one.time for one in entries if one.subresource == "status"), default=None))


def called(raw: bytes) -> str:
    """``namespace/name`` of an untranslatable object, for people; "" where even that is unreadable."""
    found = _skipping(_name_decoder, raw)
    if found is None:
        return ""
    parts = [part for part in (found.metadata.namespace, found.metadata.name) if part]
    return "/".join(parts) if all(usable(part, LONGEST_NAME) for part in parts) else ""


def is_delete(record: Record) -> bool:
    """Whether ``record`` is a delete. Raises ObservationError for an unknown change."""
    if record.change == "DELETED":
        return True
    if record.change in ("ADDED", "MODIFIED", "LISTED"):
        return False
    raise ObservationError("unknown kind of record", change=record.change[:32])


def notes(*found: tuple[str, bool]) -> tuple[str, ...]:
    """The names of the true notes."""
    return tuple(name for name, holds in found if holds)


def unique(texts: Iterable[str | None]) -> tuple[str, ...]:
    """Each stamp of ``texts`` once, in their order."""
    return tuple(dict.fromkeys(text for text in map(stamp, texts) if text))


def _plain(name: str, text: str, longest: int) -> str:
    if not text:
        raise ObservationError("a field is empty", field=name)
    if len(text) > longest:
        raise ObservationError("a field is too long", field=name, length=len(text))
    if _CONTROL.search(text):
        raise ObservationError("a field holds control characters", field=name)
    return text


def usable(text: str, longest: int) -> bool:
    """Whether ``text`` can be a name or an identity: not empty, not too long, no control
    characters.
    """
    return 0 < len(text) <= longest and not _CONTROL.search(text)
