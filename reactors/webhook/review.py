"""AdmissionReview v1: strict bytes in, a decided answer out. Pure.

There are two kinds of bad input. Bytes that do not begin as an AdmissionReview (`ReviewError`) come from no API server
and get an HTTP error, so they fall under the webhook's failurePolicy. A review that cannot be read exactly
(`UnreadableObjectError`: too large, equal keys, NUL in a text, a lone surrogate, nested too deep, an integer beyond 64 bits)
gets an *answer*: any tenant can write such an object, and with failurePolicy Ignore an HTTP error would let it pass unseen.

Source: Kubernetes, "Dynamic Admission Control"; docs/wrong-input.md.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

import msgspec

from bus import strict
from bus.errors import MalformedJsonError, PermanentError
from reactors.webhook.outline import API_VERSION, Outline, outline_of

#: A larger review is not decoded: its outline is read.
MAX_BYTES = 3 * 1024 * 1024
#: Objects and arrays inside each other; the deepest field of a built-in kind lies about 20 deep.
MAX_DEPTH = 64
#: Values in one review, its old object included. A Deployment of 3 KB has about 120.
MAX_VALUES = 100_000

Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]

_OPERATIONS: dict[str, Operation] = {name: name for name in get_args(Operation)}


class ReviewError(PermanentError):
    """The request is no AdmissionReview of version v1.

    Answer with the HTTP status `status` and `reason`, never with a review. Nothing of the content is repeated.
    """

    status: int
    reason: str


class UnreadableObjectError(PermanentError):
    """The review cannot be read exactly.

    Answer it by its `outline`, and name the `reason`. Nothing of the content is repeated.
    """

    reason: str

    def __init__(self, outline: Outline, reason: str) -> None:
        super().__init__(uid=outline.uid, reason=reason)
        self.outline = outline


class Review(msgspec.Struct, frozen=True):
    """One request to the API server that waits for an answer. Texts are empty for fields without a value."""

    #: Of the request, not of the object; a retried request comes with another one.
    uid: str
    operation: Operation
    group: str
    version: str
    #: Plural, lower case.
    resource: str
    subresource: str
    kind: str
    #: Empty for an object of the cluster.
    namespace: str
    #: Empty while a generateName has not become a name.
    name: str
    user: str
    groups: tuple[str, ...]
    dry_run: bool
    #: As it shall be stored; None for DELETE. A Scale for the subresource scale.
    object: dict[str, Any] | None
    #: As it is stored; None for CREATE.
    old_object: dict[str, Any] | None
    options: dict[str, Any] | None


class Answer(msgspec.Struct, frozen=True):
    """The answer to one review."""

    allowed: bool
    #: A stable token; kubectl shows it as `Error from server (reason)`.
    reason: str = ""
    #: For the person behind the request; shown only in a denial.
    message: str = ""
    #: HTTP status of the refused request, 400 to 599; the API server replaces any other.
    code: int = 403
    #: Shown by kubectl although it was allowed; cut at 256 characters by the API server.
    warnings: tuple[str, ...] = ()
    #: JSON Patch (RFC 6902) of the reviewed object, for a mutating review; empty = unchanged.
    patch: bytes = b""


class _Named(msgspec.Struct):
    group: str
    version: str


class _Kind(_Named):
    kind: str


class _Resource(_Named):
    resource: str


class _User(msgspec.Struct):
    username: str = ""
    groups: tuple[str, ...] | None = None


class _Request(msgspec.Struct, rename="camel"):
    uid: str
    kind: _Kind
    resource: _Resource
    # Not a Literal: msgspec's complaint about one repeats the content.
    operation: str
    user_info: _User
    sub_resource: str = ""
    name: str = ""
    namespace: str = ""
    dry_run: bool | None = None
    # Any, not dict: `convert` passes these on as they are and does not copy them.
    object: Any = None
    old_object: Any = None
    options: Any = None


class _ReviewOf(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str
    request: _Request


class _Status(msgspec.Struct):
    code: int
    reason: str
    message: str


class _Response(msgspec.Struct, omit_defaults=True, rename="camel"):
    uid: str
    allowed: bool
    status: _Status | None = None
    warnings: tuple[str, ...] = ()
    # msgspec writes bytes as base64, as the API server reads them.
    patch: bytes = b""
    patch_type: str = ""


class _Answered(msgspec.Struct, rename="camel"):
    response: _Response
    api_version: str = API_VERSION
    kind: str = "AdmissionReview"


_encode = msgspec.json.Encoder().encode


def parse(raw: bytes) -> Review:
    """The review in the body of a request. At most `MAX_BYTES`, strict JSON.

    Raises UnreadableObjectError: answer the request by its outline. Raises ReviewError where the bytes do not begin as a review.
    """
    try:
        return _parsed(raw)
    except _UnreadError as error:
        reason = str(error)
    except (RecursionError, ValueError, TypeError) as error:
        # No bytes are known to cause this; such a review is answered all the same.
        reason = type(error).__name__
    outline = outline_of(raw)
    if outline is not None:
        raise UnreadableObjectError(outline, reason)
    raise ReviewError(status=400, reason=f"not an AdmissionReview of {API_VERSION}: {reason}")


class _UnreadError(Exception):
    """Carries the reason out of the checks."""


def _parsed(raw: bytes) -> Review:
    if len(raw) > MAX_BYTES:
        raise _UnreadError(f"larger than {MAX_BYTES} bytes")
    reason = ""
    try:
        value = strict.loads(raw, max_bytes=MAX_BYTES, max_depth=MAX_DEPTH, max_values=MAX_VALUES)
        found = msgspec.convert(value, _ReviewOf)
    except MalformedJsonError as error:
        reason = error.reason
    except msgspec.ValidationError as error:
        reason = str(error)
    # Raised here and not above, so the error's context holds none of the content.
    if reason:
        raise _UnreadError(reason)
    if (found.api_version, found.kind) != (API_VERSION, "AdmissionReview"):
        raise _UnreadError("another version or kind")
    return _review(found.request)


def render(uid: str, answer: Answer) -> bytes:
    """The body of the answer to the review `uid`."""
    status = None if answer.allowed else _Status(answer.code, answer.reason, answer.message)
    kind = "JSONPatch" if answer.patch else ""
    response = _Response(uid, answer.allowed, status, answer.warnings, answer.patch, kind)
    return _encode(_Answered(response))


def _review(request: _Request) -> Review:
    if not request.uid:
        raise _UnreadError("the request has no uid")
    operation = _OPERATIONS.get(request.operation)
    if operation is None:
        raise _UnreadError("an unknown operation")
    for value in (request.object, request.old_object, request.options):
        if value is not None and type(value) is not dict:
            raise _UnreadError("an object is not an object")
    if request.object is None and operation in ("CREATE", "UPDATE"):
        raise _UnreadError(f"{operation} without an object")
    return Review(
        uid=request.uid,
        operation=operation,
        group=request.resource.group,
        version=request.resource.version,
        resource=request.resource.resource,
        subresource=request.sub_resource,
        kind=request.kind.kind,
        namespace=request.namespace,
        name=request.name,
        user=request.user_info.username,
        groups=request.user_info.groups or (),
        dry_run=bool(request.dry_run),
        object=request.object,
        old_object=request.old_object,
        options=request.options,
    )
