"""The outline of a review: the fields for an answer if its objects cannot be read exactly. Pure.

A tenant controls the size and the form of an object, but not the fields written before it by the API server. So the outline of
every body that begins as an AdmissionReview has the uid, and such a review always gets an answer. No request can hand its
decision to failurePolicy.

Source: Kubernetes, ``admission/v1``, "AdmissionRequest" (the order of its fields); docs/wrong-input.md.
"""

from __future__ import annotations

from typing import Any

import msgspec

from bus.kube.kinds import QUOTA_LABELS
from reactors.webhook.scanner import Path, Scanner

API_VERSION = "admission.k8s.io/v1"

_TEXTS = ("uid", "subResource", "namespace", "name", "operation")
_OBJECTS = ("object", "oldObject")
#: All fields that may change the amount or the quota of a request.
_ASKS = (("spec",), ("metadata", "labels"), ("metadata", "annotations"))
_UID, _OWNERS = ("metadata", "uid"), ("metadata", "ownerReferences")
_DELETION = ("metadata", "deletionTimestamp")
_ENTERED = frozenset(
    {(), ("request",)}
    | {("request", one) for one in _OBJECTS}
    | {("request", one, "metadata") for one in _OBJECTS}
)
_CHOSEN = frozenset(
    {("kind",), ("apiVersion",), ("request", "resource"), ("request", "kind")}
    | {("request", one) for one in _TEXTS}
    | {("request", one, *path) for one in _OBJECTS for path in (*_ASKS, _UID, _OWNERS, _DELETION)}
)
#: A label of a quota, of an object or of a template anywhere in it. In a text each quote would be escaped.
_MARKS = tuple(b'"%b":"' % label.encode() for label in QUOTA_LABELS)
_LONGEST_MARK = max(map(len, _MARKS))


class Outline(msgspec.Struct, frozen=True):
    """The readable part of a review. Texts are empty where the request has none, or where they were not read."""

    uid: str
    operation: str = ""
    group: str = ""
    resource: str = ""
    subresource: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    #: Whether all of the review was read: only then the rest is certain.
    is_whole: bool = False
    #: Whether the object, the stored one or a template in them has a label for a quota.
    names_quota: bool = False
    #: The uids of both objects and of all their owners; None if they are unknown.
    uids: frozenset[str] | None = None
    #: Those of the objects themselves.
    own: frozenset[str] = frozenset()
    #: Whether an update leaves spec, labels, annotations and owners alone.
    asks_alike: bool = False
    #: Whether an update keeps spec, labels and owners of an object in deletion.
    only_ends: bool = False


class OutlineReader:
    """Reads the outline of a review piece by piece; holds a few KB, for a review of any size."""

    def __init__(self) -> None:
        self._scanner = Scanner(_ENTERED, _CHOSEN)
        self._names_quota = False
        self._last = b""

    def feed(self, piece: bytes) -> None:
        """The next bytes."""
        self._scanner.feed(piece)
        if not self._names_quota:
            # A label may lie across two pieces.
            across = self._last + piece[:_LONGEST_MARK]
            self._names_quota = any(mark in piece or mark in across for mark in _MARKS)
            self._last = (self._last + piece)[-_LONGEST_MARK:]

    def outline(self) -> Outline | None:
        """The outline so far; None for a body that does not begin as an AdmissionReview."""
        if (
            self._value(("kind",)) != "AdmissionReview"
            or self._value(("apiVersion",)) != API_VERSION
        ):
            return None
        uid, *texts = (self._text(("request", name)) for name in _TEXTS)
        if not uid:
            return None
        subresource, namespace, name, operation = texts
        resource, kind = (self._value(("request", one)) for one in ("resource", "kind"))
        resource = resource if isinstance(resource, dict) else {}
        is_whole = self._scanner.is_done
        is_alike = (
            is_whole and operation == "UPDATE" and self._is_same(("spec",), _OWNERS, _ASKS[1])
        )
        return Outline(
            uid, operation, str(resource.get("group", "")), str(resource.get("resource", "")), subresource,
            str(kind.get("kind", "")) if isinstance(kind, dict) else "", namespace, name, is_whole,
            self._names_quota, self._uids() if is_whole else None,
            own=frozenset(self._text(("request", one, *_UID)) for one in _OBJECTS) - {""},
            asks_alike=is_alike and self._is_same(_ASKS[2]),
            only_ends=is_alike and ("request", "oldObject", *_DELETION) in self._scanner.members,
        )  # fmt: skip

    def _is_same(self, *paths: Path) -> bool:
        members = self._scanner.members
        for path in paths:
            new, old = (members.get(("request", one, *path)) for one in _OBJECTS)
            if (new and new.digest) != (old and old.digest):
                return False
        return True

    def _uids(self) -> frozenset[str] | None:
        found: set[str] = set()
        for one in _OBJECTS:
            found.add(self._text(("request", one, *_UID)))
            if ("request", one, *_OWNERS) not in self._scanner.members:
                continue
            references = self._value(("request", one, *_OWNERS))
            if not isinstance(references, list):
                return None
            found.update(str(each.get("uid")) for each in references if isinstance(each, dict))
        return frozenset(found - {""})

    def _text(self, path: Path) -> str:
        value = self._value(path)
        return value if isinstance(value, str) else ""

    def _value(self, path: Path) -> Any:
        """The value of a short member; None for any other."""
        member = self._scanner.members.get(path)
        if member is None or member.raw is None:
            return None
        try:
            return msgspec.json.decode(member.raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None


def outline_of(raw: bytes) -> Outline | None:
    """The outline of a whole review, or of its beginning; None for a body that does not begin as an AdmissionReview."""
    reader = OutlineReader()
    reader.feed(raw)
    return reader.outline()
