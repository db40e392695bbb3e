"""JSON cut as bytes: the members of an object, the items of a list, the fields of a type. Pure.

An API server keeps opaque parameters of claims and ``fieldsV1`` byte for byte. Strict readers refuse some of these
bytes: lone surrogates, doubled keys, invalid UTF-8, thousands of levels. Skipped bytes are never checked. Kept
bytes are copied, and their decoder checks them.

The cost is linear in the bytes. Skipped values are counted in windows at the speed of C: texts are cut out by ``bytes.split``,
and the remaining brackets show whether the value ends there. Refused: a step for each run of brackets, since a page with one
claim of a megabyte of brackets blocked its reader for two seconds. Refused: a mask of the same length for msgspec, since that
reader drops the first of two equal keys.

Source: Kubernetes, ``k8s.io/apimachinery`` ``runtime.RawExtension`` and ``meta/v1`` ``FieldsV1``; docs/wrong-input.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import accumulate
from typing import Any

import msgspec
from msgspec import inspect

from bus import strict
from bus.errors import MalformedJsonError

#: Deepest nesting of objects and arrays in a kept value of any type.
DEEPEST = 48
#: An unreadable part of a value of any type. Readers of texts, numbers, maps and switches all refuse it.
UNREADABLE = b"[false]"

_TEXT = rb'"(?:[^"\\]++|\\.)*+"'
_TOKEN = re.compile(rb'[^"\[\]{},:]*+(%s|[\[\]{},:])' % _TEXT, re.DOTALL)
#: A run of brackets, behind texts, numbers and innermost objects and arrays without texts.
_BRACKETS = re.compile(
    rb'(?:[^"\[\]{}]++|%s|[\[{][^"\[\]{}]*+[\]}])*+([\[{]++|[\]}]++)' % _TEXT, re.DOTALL
)
_TEXT_END = re.compile(rb'(?:[^"\\]++|\\.)*+"', re.DOTALL)
_ALL_BUT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_STEPS = {0x5B: 1, 0x7B: 1, 0x5D: -1, 0x7D: -1}
#: Bytes of a skipped value counted at once.
_SMALLEST, _LARGEST = 1_024, 65_536
_QUOTE, _COLON, _COMMA = b'":,'
_OBJECT, _OBJECT_END, _ARRAY, _ARRAY_END = b"{}[]"


class Shape(msgspec.Struct, frozen=True):
    """The parts of a value read by a type. Without any the value is copied as it is."""

    #: By the bytes of the key. None = all members are kept.
    fields: dict[bytes, Shape] | None = None
    #: Of the elements of an array.
    elements: Shape | None = None
    #: Of the members of a map.
    values: Shape | None = None
    #: A value of any type: :data:`UNREADABLE` replaces its unreadable parts.
    is_any: bool = False


_WHOLE, _ANY = Shape(), Shape(is_any=True)


@lru_cache(maxsize=256)
def _shape(kind: Any) -> Shape:
    return _shape_of(inspect.type_info(kind))


def _shape_of(kind: inspect.Type) -> Shape:
    if isinstance(kind, inspect.Metadata):
        return _shape_of(kind.type)
    if isinstance(kind, inspect.AnyType):
        return _ANY
    if isinstance(kind, inspect.StructType):
        fields = {b'"%s"' % f.encode_name.encode(): _shape_of(f.type) for f in kind.fields}
        return Shape(fields=fields)
    if isinstance(kind, inspect.ListType | inspect.VarTupleType):
        return Shape(elements=_shape_of(kind.item_type))
    if isinstance(kind, inspect.DictType):
        return Shape(values=_shape_of(kind.value_type))
    if isinstance(kind, inspect.UnionType):
        found = [_shape_of(one) for one in kind.types]
        return Shape(
            next((one.fields for one in found if one.fields is not None), None),
            next((one.elements for one in found if one.elements), None),
            next((one.values for one in found if one.values), None),
            any(one.is_any for one in found),
        )
    return _WHOLE


def picked(raw: bytes, kind: Any) -> bytes:
    """``raw`` reduced to the members of the type ``kind``. Both of two equal keys are kept.

    Raises MalformedJsonError where even the brackets are no JSON.
    """
    cutter = _Cutter(raw)
    found = cutter.value(_shape(kind))
    cutter.end()
    return found


def members(raw: bytes) -> dict[bytes, bytes]:
    """The members of an object: key with its quotes to value. Raises MalformedJsonError for another value and doubled keys."""
    cutter, found = _Cutter(raw), dict[bytes, bytes]()
    cutter.open(_OBJECT)
    for key in map(_plain, cutter.keys(_OBJECT_END)):
        if key in found:
            raise MalformedJsonError(reason="duplicate key")
        found[key] = cutter.value(_WHOLE)
    cutter.end()
    return found


def elements(raw: bytes) -> list[bytes]:
    """The elements of an array. Raises MalformedJsonError for another value."""
    cutter = _Cutter(raw)
    cutter.open(_ARRAY)
    found = [cutter.value(_WHOLE) for _ in cutter.keys(_ARRAY_END)]
    cutter.end()
    return found


class _Cutter:
    """Reads from the start of ``raw`` to its end."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._at = 0

    def open(self, bracket: int) -> None:
        """Reads the next bracket; it must be ``bracket``."""
        begin = self._at
        self._expect(begin, self._token(), bracket)

    def end(self) -> None:
        """Only white space is left."""
        if self._raw[self._at :].strip():
            raise MalformedJsonError(reason="trailing characters", offset=self._at)

    def keys(self, closing: int) -> Iterator[bytes]:
        """The key of each member; b"" for each element of an array. The caller reads the value before the next one."""
        raw, begin = self._raw, self._at
        start = self._token()
        if raw[start] == closing and not raw[begin:start].strip():
            return
        self._at = begin
        while True:
            key = b""
            if closing == _OBJECT_END:
                begin = self._at
                start = self._token()
                self._expect(begin, start, _QUOTE)
                key, begin = raw[start : self._at], self._at
                self._expect(begin, self._token(), _COLON)
            yield key
            begin = self._at
            start = self._token()
            if raw[start] == closing:
                break
            self._expect(begin, start, _COMMA)
        if raw[begin:start].strip():
            raise MalformedJsonError(reason="invalid character", offset=begin)

    def value(self, shape: Shape | None, depth: int = 0) -> bytes:
        """The parts of the next value in ``shape``; None = only its end is found."""
        raw, begin = self._raw, self._at
        start = self._token()
        mark = raw[start]
        if mark in (_OBJECT, _ARRAY):
            return self._nested(shape, start, depth)
        if mark in (_COMMA, _OBJECT_END, _ARRAY_END):
            # A number or a literal, whose end is the start of the next token.
            self._at = start
        elif mark != _QUOTE or raw[begin:start].strip():
            raise MalformedJsonError(reason="invalid character", offset=start)
        found = raw[begin : self._at].strip()
        return found if shape is None or not shape.is_any or _is_strict(found) else UNREADABLE

    def _nested(self, shape: Shape | None, start: int, depth: int) -> bytes:
        is_object = self._raw[start] == _OBJECT
        if shape is not None and depth < DEEPEST:
            if is_object and (shape.is_any or shape.values or shape.fields is not None):
                return self._object(shape, depth + 1)
            if not is_object and (shape.is_any or shape.elements):
                inner = shape.elements or _ANY
                found = [self.value(inner, depth + 1) for _ in self.keys(_ARRAY_END)]
                return b"[%s]" % b",".join(found)
        self._at = self._behind(start)
        return UNREADABLE if shape is not None and shape.is_any else self._raw[start : self._at]

    def _object(self, shape: Shape, depth: int) -> bytes:
        kept, names = list[bytes](), set[str | None]()
        for key in self.keys(_OBJECT_END):
            if shape.fields is None:
                inner: Shape | None = shape.values or _ANY
            else:
                inner = shape.fields.get(_plain(key))
            value = self.value(inner, depth)
            if inner is not None:
                kept.append(b"%s:%s" % (key, value))
                names.add(_name(key) if shape.is_any else None)
        # Which of two equal keys counts is unknown.
        if shape.is_any and (None in names or len(names) < len(kept)):
            return UNREADABLE
        return b"{%s}" % b",".join(kept)

    def _token(self) -> int:
        """Where the next bracket, comma, colon or text begins; the cutter goes behind it."""
        found = _TOKEN.match(self._raw, self._at)
        if found is None:
            raise MalformedJsonError(reason="truncated", offset=len(self._raw))
        self._at = found.end()
        return found.start(1)

    def _expect(self, begin: int, start: int, mark: int) -> None:
        if self._raw[start] != mark or self._raw[begin:start].strip():
            raise MalformedJsonError(reason="invalid character", offset=start)

    def _behind(self, start: int) -> int:
        """The end of the object or array at ``start``."""
        raw, depth, at, window, in_text = self._raw, 1, start + 1, _SMALLEST, False
        while piece := raw[at : at + window]:
            # A backslash escapes the next byte: both are read together.
            if (len(piece) - len(piece.rstrip(b"\\"))) % 2:
                piece = piece[:-1]
            begun = b'"' + piece if in_text else piece
            cut = begun.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
            brackets = b"".join(cut[::2]).translate(None, _ALL_BUT_BRACKETS)
            closed = brackets.count(b"]") + brackets.count(b"}")
            if not piece:
                break
            if closed >= depth and 0 in accumulate(
                map(_STEPS.__getitem__, brackets), initial=depth
            ):
                return self._end(at, depth, in_text=in_text)
            depth, in_text = depth + len(brackets) - 2 * closed, len(cut) % 2 == 0
            at, window = at + len(piece), min(4 * window, _LARGEST)
        raise MalformedJsonError(reason="truncated", offset=len(raw))

    def _end(self, at: int, depth: int, *, in_text: bool) -> int:
        """The nearby end of a value of this depth."""
        if in_text and (text := _TEXT_END.match(self._raw, at)):
            at = text.end()
        while found := _BRACKETS.match(self._raw, at):
            at, first = found.end(), found.start(1)
            if self._raw[first] in (_OBJECT, _ARRAY):
                depth += at - first
            else:
                depth -= at - first
                if depth <= 0:
                    return at + depth
        raise MalformedJsonError(reason="truncated", offset=len(self._raw))


def _is_strict(raw: bytes) -> bool:
    try:
        strict.loads(raw, max_bytes=len(raw))
    except MalformedJsonError:
        return False
    return True


def _name(key: bytes) -> str | None:
    """The text of a key; None for an invalid one."""
    try:
        return str(strict.loads(key, max_bytes=len(key)))
    except MalformedJsonError:
        return None


def _plain(key: bytes) -> bytes:
    """A key without escapes, as fields are named."""
    if b"\\" not in key:
        return key
    name = _name(key)
    return key if name is None else msgspec.json.encode(name)
