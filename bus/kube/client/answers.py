"""The answers of an API server: pages of a list with their items as bytes, and single objects. Pure.

Bytes refused by strict readers harm only their own object, and no other of the page.
"""

from __future__ import annotations

from typing import Any

import msgspec

from bus.errors import MalformedJsonError
from bus.kube.watch import cutting
from bus.kube.watch.contract import Page

Json = dict[str, Any]

#: Errors of a decoder for unreadable bytes.
_UNDECODABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str | None = msgspec.field(default=None, name="continue")
    remaining_item_count: int | None = None


class _List(msgspec.Struct):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


_list_decoder = msgspec.json.Decoder(_List)


def page(raw: bytes) -> Page:
    """The page of a list in ``raw``. Raises MalformedJsonError for another answer."""
    try:
        found = _list_decoder.decode(raw)
        metadata, items = found.metadata, [bytes(item) for item in found.items or ()]
    except _UNDECODABLE:
        # The decoder also checks skipped bytes.
        metadata, items = _cut(raw)
    return Page(
        items,
        metadata.resource_version,
        metadata.continue_ or "",
        metadata.remaining_item_count or 0,
    )


def _cut(raw: bytes) -> tuple[_ListMeta, list[bytes]]:
    try:
        found = cutting.members(raw)
        metadata = cutting.picked(found[b'"metadata"'], _ListMeta)
        items = found.get(b'"items"', b"null")
        return (
            msgspec.json.decode(metadata, type=_ListMeta),
            [] if items == b"null" else cutting.elements(items),
        )
    except (*_UNDECODABLE, KeyError, MalformedJsonError):
        raise MalformedJsonError("the answer is no list", reason="readers disagree") from None


def json(raw: bytes) -> Json:
    """The object in ``raw``. :data:`cutting.UNREADABLE` replaces unreadable parts.

    Raises MalformedJsonError for another answer.
    """
    try:
        return msgspec.json.decode(raw, type=Json)
    except _UNDECODABLE:
        pass
    try:
        return msgspec.json.decode(cutting.picked(raw, Json), type=Json)
    except (*_UNDECODABLE, MalformedJsonError):
        raise MalformedJsonError("the answer is no object", reason="not JSON") from None
