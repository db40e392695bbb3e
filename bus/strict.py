"""Strict JSON: the bytes every correct reader understands alike, and no others.

Stands at the edges: watch lines, replies, messages of the bus, admission reviews. Python's `json`
accepts NaN, keeps the last of two equal keys and overflows the stack at depth 5,000; a fold of such
bytes would depend on the reader. Rows A28, B5, C13, E1 and F5 of docs/wrong-input.md.

Duplicate keys are found in a few microseconds. No fast decoder reports one, and `json` with a hook per object costs
twice as much as all other checks together. But a duplicate cannot survive a round trip: where `encode(decode(raw))
== raw`, each key was there once. Bursar's own bytes and nearly all lines of an API server are already in msgspec's
compact form, so one decode and one encode in C prove them; other bytes (white space, `\\u003c`, `1E3`) also go
through `json`. Measured on 5 KB of pods, msgspec's decode alone = 1: this check 2.2, `json` with the hook 4.0,
other bytes 7; about 8 us instead of the hook's 15. Refused: checking only some levels (a fold may read any of
them), and counting `":` in the bytes (the text of a label may hold it).

Deep or very many values cost decoders and folds far more time than their bytes suggest: 3 MiB of lists nested 60
deep took 8 s. So large bytes are counted before anything is made of them, at the speed of C: the texts are cut out
by `bytes.split`, and the remaining brackets and commas show depth and number. Refused: a regular expression for the
texts, five times as slow on a million of them, and blocking all other threads meanwhile.
"""

from __future__ import annotations

import json
import re
from itertools import accumulate
from typing import Any

import msgspec

from bus.errors import MalformedJsonError

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode

_DIGITS_TO_ZERO = bytes(0x30 if 0x30 <= byte <= 0x39 else byte for byte in range(256))
_NINETEEN_DIGITS = b"0" * 19
#: Every fourth byte is looked at first: of nineteen digits in a row at least four are among them.
_FOUR_DIGITS = b"0" * 4
_NUL = re.compile(rb"(?<!\\)(?:\\\\)*+\\u0000")
_MSGSPEC_OFFSET = re.compile(r"JSON is malformed: (.+) \(byte ([0-9]+)\)")
#: Larger bytes are counted before they are decoded.
LARGE_BYTES = 65_536
_ALL_BUT_STRUCTURE = bytes(set(range(256)) - set(b"[]{},"))
_ALL_BUT_OUTLINE = bytes(set(range(256)) - set(b'[]{}"'))
_STEPS = {0x5B: 1, 0x7B: 1, 0x5D: -1, 0x7D: -1, 0x2C: 0}
_NESTING = frozenset({dict, list})
_INT64 = range(-(2**63), 2**63)


def loads(
    raw: bytes, *, max_bytes: int, max_depth: int = 64, max_values: int | None = None
) -> object:
    """The value of strict JSON: dict, list, str, int, float, bool or None.

    Refused: more than `max_bytes`; a byte order mark; invalid UTF-8; lone surrogates; NUL in any
    text; NaN, Infinity and floats beyond a double; integers outside int64; two equal keys in one
    object; more than `max_depth` objects and arrays inside each other (a scalar has depth 0); more
    than `max_values` values, where the bytes are more than `LARGE_BYTES`.
    Raises MalformedJsonError with `reason`, and `offset` where it is known; never with content.
    """
    if len(raw) > max_bytes:
        raise MalformedJsonError(reason="too large", size=len(raw), limit=max_bytes)
    if len(raw) > LARGE_BYTES:
        if excess := _excess(raw, max_depth, max_values):
            raise excess
    fault: tuple[str, int | None] | None = None
    try:
        value = _decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        fault = _fault(raw, error)
    # Raised here and not above, so the error's context holds none of the content.
    if fault:
        raise _malformed(*fault)
    if _may_be_deeper(raw, max_depth) and _deeper(value, max_depth):
        raise _malformed("too deep", None)
    # Escapes are common (managedFields has thousands), an escaped NUL is not: look for it first.
    if b"\\" in raw and b"\\u0000" in raw and (nul := _NUL.search(raw)):
        raise _malformed("NUL character", nul.end() - len(b"\\u0000"))
    if _has_long_digits(raw) or _encode(value) != raw:
        _check_slowly(raw)
    return value


def well_formed(raw: bytes, *, max_bytes: int, max_depth: int = 64) -> bytes:
    """`raw` itself, proven to be strict JSON, to be decoded by a typed decoder.

    The same checks and errors as `loads`. A typed decoder may skip unknown values without a check, so it cannot do
    this by itself.
    """
    loads(raw, max_bytes=max_bytes, max_depth=max_depth)
    return raw


def is_deep(raw: bytes, max_depth: int = 64) -> bool:
    """Whether the nesting of objects and arrays exceeds ``max_depth``. Decodes nothing; for bytes without JSON,
    either answer.
    """
    if raw.count(b"[") + raw.count(b"{") <= max_depth:
        return False
    return max(accumulate(map(_STEPS.__getitem__, bare(raw))), default=0) > max_depth


def bare(raw: bytes) -> bytes:
    """The brackets and commas of JSON, without the content of its texts. Decodes nothing; total.

    Other bytes give any of them.
    """
    # Pairs of backslashes go first, so one before a quote is an escape.
    texts_cut = raw.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
    return b"".join(texts_cut[::2]).translate(None, _ALL_BUT_STRUCTURE)


def _excess(raw: bytes, max_depth: int, max_values: int | None) -> MalformedJsonError | None:
    """The fault in the shape of large bytes."""
    structure = bare(raw)
    commas = structure.count(b",")
    # Each opening bracket may hold one value more than it has commas.
    values = 1 + commas + (len(structure) - commas) // 2
    if max_values is not None and values > max_values:
        return MalformedJsonError(reason="too many values", size=values, limit=max_values)
    if max(accumulate(map(_STEPS.__getitem__, structure)), default=0) > max_depth:
        return _malformed("too deep", None)
    return None


def _has_long_digits(raw: bytes) -> bool:
    """Whether nineteen digits follow each other, as in integers possibly above 64 bits."""
    if _FOUR_DIGITS not in raw[::4].translate(_DIGITS_TO_ZERO):
        return False
    return _NINETEEN_DIGITS in raw.translate(_DIGITS_TO_ZERO)


def _malformed(reason: str, offset: int | None) -> MalformedJsonError:
    if offset is None:
        return MalformedJsonError(reason=reason)
    return MalformedJsonError(reason=reason, offset=offset)


def _fault(raw: bytes, error: Exception) -> tuple[str, int | None]:
    """Reason and offset of a decoder's error; msgspec's own texts hold no content."""
    if isinstance(error, RecursionError):
        return "too deep", None
    if raw.startswith(b"\xef\xbb\xbf"):
        return "byte order mark", 0
    if isinstance(error, UnicodeDecodeError):
        # msgspec counts from the start of the text, not of the bytes.
        try:
            raw.decode()
        except UnicodeDecodeError as whole:
            return "invalid UTF-8", whole.start
    if isinstance(error, msgspec.ValidationError):
        return "number out of range", None
    if found := _MSGSPEC_OFFSET.fullmatch(str(error)):
        return found[1], int(found[2])
    return "truncated", len(raw)


def _may_be_deeper(raw: bytes, max_depth: int) -> bool:
    """Whether anything lies `max_depth` deep, read off the brackets, else off the indentation: a quarter of a walk."""
    # Indentation multiplies the size by the depth, so large bytes were counted instead.
    if len(raw) > LARGE_BYTES:
        return False
    # The root is not indented.
    if max_depth < 1:
        return True
    # Most objects have fewer brackets than may lie inside each other, when those of the innermost ones are left out.
    if b"\\" in raw:
        outline = raw.replace(b"\\\\", b"").replace(b'\\"', b"")
    else:
        outline = raw
    # Quotes stay around a bracket in a text, so it makes no pair with one outside.
    outline = outline.translate(None, _ALL_BUT_OUTLINE).replace(b'""', b"")
    # Each of the two takes one level away at most.
    inner = outline.replace(b"{}", b"").replace(b"[]", b"")
    if inner.count(b"{") + inner.count(b"[") + 2 <= max_depth:
        return False
    return b"\n" + b" " * max_depth in msgspec.json.format(raw, indent=1)


def _deeper(value: Any, max_depth: int) -> bool:
    level = [value] if type(value) in _NESTING else []
    for _ in range(max_depth):
        inside: list[Any] = []
        for one in level:
            inside.extend(one.values() if type(one) is dict else one)
        level = [one for one in inside if type(one) in _NESTING]
        if not level:
            return False
    return bool(level)


def _check_slowly(raw: bytes) -> None:
    """Duplicate keys and large integers; msgspec has read the bytes, and their depth is bounded."""
    reason = ""
    try:
        json.loads(raw.decode(), object_pairs_hook=_without_duplicates, parse_int=_int64)
    except _FoundError as found:
        reason = found.args[0]
    except RecursionError:
        reason = "too deep"
    except ValueError:
        reason = "readers disagree"
    if reason:
        raise _malformed(reason, None)


class _FoundError(Exception):
    """Carries the reason out of the hooks of `json`."""


def _without_duplicates(pairs: list[tuple[str, object]]) -> None:
    if len({key for key, _ in pairs}) != len(pairs):
        raise _FoundError("duplicate key")


def _int64(digits: str) -> None:
    if len(digits) > 20 or int(digits) not in _INT64:
        raise _FoundError("integer out of range")
