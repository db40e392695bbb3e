"""The error in an API server's refusal of one object: a status and a Status object. Pure.

Lists and watches have their own reading (:func:`bus.kube.watch.contract.refusal`), where a 400 and a
410 are about a version.
"""

from __future__ import annotations

import re

import msgspec

from bus.errors import (
    BursarError,
    ClusterUnavailableError,
    ConflictError,
    NotFoundError,
    PermissionDeniedError,
    RequestRefusedError,
    UnknownRightsError,
)

#: Longest message in an error.
LONGEST_MESSAGE = 4096


class _Cause(msgspec.Struct):
    message: str = ""


class _Details(msgspec.Struct):
    causes: list[_Cause] | None = None


class _Status(msgspec.Struct):
    message: str = ""
    reason: str = ""
    details: _Details | None = None


#: The API server's words for a refusal by its authorizer; a refusal by admission has other words.
_NO_RIGHT = re.compile(r'\bUser "[^"]*" cannot ')
#: Subresources of a namespace itself.
_OF_NAMESPACES = ("status", "finalize")

#: Its words, in a 500, for an unknown field of a kind: no wait helps (kubernetes/kubernetes#139253).
_UNDECLARED = "field not declared in schema"

_decoder = msgspec.json.Decoder(_Status)


def resource_at(path: str) -> str:
    """The resource at an API path, as permissions name it: ``pods/eviction``, ``deployments.apps``.

    ``path`` addresses a collection, an object, or its subresource, in a namespace or not.
    """
    parts = path.strip("/").split("/")
    group, rest = ("", parts[2:]) if parts[0] == "api" else (f".{parts[1]}", parts[3:])
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in _OF_NAMESPACES:
        rest = rest[2:]
    return f"{rest[0]}{group}" + (f"/{rest[2]}" if len(rest) > 2 else "")


def declined(status: int, body: bytes, *, request: str, delay_seconds: float) -> BursarError:
    """The error for ``status``, with ``message`` and ``reason`` of the Status in ``body``.

    ``request`` is a verb and a resource. ``delay_seconds`` is the server's requested wait.
    """
    message, reason = _status_words(body)
    if status == 401 or (status == 403 and _NO_RIGHT.search(message)):
        return UnknownRightsError(permission=request, status=status, message=message)
    if status == 403:
        return PermissionDeniedError(permission=request, status=status, message=message)
    if status == 404:
        return NotFoundError(request=request, message=message)
    if status == 409:
        return ConflictError(request=request, reason=reason, message=message)
    is_final = 400 <= status < 500 and status not in (408, 429)
    if is_final or (status == 500 and _UNDECLARED in message):
        return RequestRefusedError(request=request, status=status, message=message)
    return ClusterUnavailableError(
        status=status,
        request=request,
        message=message,
        delay_seconds=min(max(delay_seconds, 0.0), 300.0),
    )


def _status_words(body: bytes) -> tuple[str, str]:
    try:
        found = _decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        # A proxy's page, or a webhook's own text.
        return body[:LONGEST_MESSAGE].decode(errors="replace"), ""
    # Of an eviction only the causes name the disruption budget.
    causes = (found.details.causes if found.details else None) or []
    more = [one.message for one in causes if one.message and one.message not in found.message]
    return " ".join([found.message, *more])[:LONGEST_MESSAGE], found.reason
