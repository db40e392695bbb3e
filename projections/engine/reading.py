"""The fact in an event, if every database of a ledger can store it.

A value refused by one database would fail the transaction of its batch, and of every later start as well. So it is
parked, like unreadable events, and by the same rules on every database: no NUL in texts (PostgreSQL), integers of
64 bits (both), and texts of at most :data:`LONGEST_TEXT` bytes in possible parts of a key. Free text may be longer.

A Kubernetes API server always meets the rules: its names have at most 253 characters, its labels 63.

Source: PostgreSQL documentation, "Limits" and "B-Tree indexes" (an entry takes at most a third of a page).
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from bus.envelope import Event, checked
from bus.errors import EnvelopeError
from bus.events import VOCABULARY
from bus.events.vocabulary import Fact, read

#: Most UTF-8 bytes of a text usable in a key. The widest key has six of them, a cluster and an integer, and
#: PostgreSQL takes 2,704 bytes.
LONGEST_TEXT = 400

#: Fields of bodies outside of every key. They may be longer.
FREE = frozenset(
    {
        "annotations",
        "author",
        "card_texts",
        "cpuset",
        "held",
        "image",
        "message",
        "notes",
        "partitions",
        "policy",
        "problem",
        "reason",
        "reserved",
        "resources",
    }
)

_INT64 = range(-(2**63), 2**63)

#: NUL as JSON writes it, different from the text ``\\u0000`` behind an escaped backslash.
_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")

# One search finds too long values, with all digits as one digit, and all characters but quotes as one letter.
_DIGITS = bytes(0x30 if 0x30 <= byte <= 0x39 else byte for byte in range(256))
_TEXTS = bytes(byte if byte == 0x22 else 0x78 for byte in range(256))
_LONG_NUMBER = b"0" * 19
_LONG_TEXT = b"x" * (LONGEST_TEXT + 1)


def fact_in(event: Event) -> Fact:
    """The fact in ``event``. Raises a PermanentError: park it."""
    body = event.body
    if b"\\u0000" in body and _NUL.search(body):
        raise EnvelopeError("the body holds a NUL character", type=event.type)
    fact = read(event, VOCABULARY)
    if _may_not_fit(body):
        # Of a decision out of a group nobody looked at the attributes yet.
        checked(event)
        _fits("", {n: getattr(fact, n) for n in fact.__struct_fields__ if n not in FREE})
    return fact


def _may_not_fit(body: bytes) -> bool:
    """Whether a text or an integer of ``body`` may be too large. Two microseconds, where a walk takes thirty."""
    # An escaped quote ends no text.
    if b"\\" in body or _LONG_NUMBER in body.translate(_DIGITS):
        return True
    return _LONG_TEXT in body.translate(_TEXTS)


def _fits(place: str, value: Any) -> None:
    """Raise EnvelopeError with the field of the first unfit value in ``value``."""
    if isinstance(value, str):
        if len(value.encode()) > LONGEST_TEXT:
            raise EnvelopeError("a text is too long", field=place, most=LONGEST_TEXT)
    elif isinstance(value, bool):
        return
    elif isinstance(value, int):
        if value not in _INT64:
            raise EnvelopeError("an integer is out of range", field=place)
    elif isinstance(value, dict):
        for key, one in value.items():
            _fits(place, key)
            _fits(place, one)
    elif isinstance(value, (tuple, list)):
        for one in value:
            _fits(place, one)
    elif isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            if name not in FREE:
                _fits(f"{place}.{name}", getattr(value, name))
