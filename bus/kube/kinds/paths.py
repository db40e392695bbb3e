"""Strict reading of fields by path: a wrong type is refused with its place, never guessed around."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from bus.errors import DemandError

#: Largest number of replicas in Kubernetes (int32).
MOST_REPLICAS = 2**31 - 1
#: Largest amount of a ledger row or a quota (int64).
MOST = 2**63 - 1

#: Longest key in a shown path: a DNS label.
LONGEST_KEY = 63

Found = tuple[str, Any]
"""(path with keys and indexes in the place of ``*``, value)."""


def find(value: Any, path: str, at: str = "") -> Iterator[Found]:
    """Every value at ``path`` below ``value``, itself at ``at``; nothing for an absent or null value.

    Raises DemandError where a value on the way cannot hold the next field.
    """
    before, star, rest = path.partition("*")
    found = one(value, before.rstrip("."), at)
    if found is None:
        return
    if not star:
        yield found
        return
    for place, inner in _inner(found[1], found[0]):
        if inner is not None:
            yield from find(inner, rest.lstrip("."), place)


def _inner(value: Any, at: str) -> Iterator[Found]:
    """Every value of a list or map."""
    if type(value) is list:
        for index, inner in enumerate(value):
            yield f"{at}[{index}]", inner
        return
    if type(value) is not dict:
        raise DemandError(path=at, reason="not a list or map")
    # Sorted: two readers of one object must agree on the order, and JSON maps have none.
    for key in sorted(value):
        yield f"{at}.{key[:LONGEST_KEY]}" if at else key[:LONGEST_KEY], value[key]


@lru_cache(maxsize=1_024)
def _steps(path: str) -> tuple[str, ...]:
    return tuple(path.split(".")) if path else ()


def one(value: Any, path: str, at: str = "") -> Found | None:
    """The value at ``path``, a path without ``*``; None where it is absent or null."""
    for step in _steps(path):
        if type(value) is not dict:
            raise DemandError(path=at, reason="not an object")
        at = f"{at}.{step}" if at else step
        value = value.get(step)
        if value is None:
            return None
    return at, value


def count(value: Any, path: str, at: str = "", *, default: int, most: int = MOST_REPLICAS) -> int:
    """The whole number from 0 to ``most`` at ``path``; ``default`` where it is absent or null.

    Raises DemandError (docs/wrong-input.md D1).
    """
    found = one(value, path, at) if path else None
    if found is None:
        return default
    place, number = found
    # bool is an int for Python, and no number in JSON.
    if type(number) is not int:
        raise DemandError(path=place, reason="not a whole number")
    return bounded(number, place, most)


def bounded(number: int, place: str, most: int = MOST) -> int:
    """``number`` itself, if it lies from 0 to ``most``. Raises DemandError."""
    if number < 0:
        raise DemandError(path=place, reason="negative")
    if number > most:
        raise DemandError(path=place, reason=f"above {most}")
    return number


def text(value: Any, path: str, at: str = "", *, most: int = 253) -> str:
    """The text at ``path``, at most ``most`` characters; "" where it is absent or null. Raises DemandError."""
    found = one(value, path, at)
    if found is None:
        return ""
    place, written = found
    if type(written) is not str or len(written) > most:
        raise DemandError(path=place, reason=f"not a text of at most {most} characters")
    return written


def mapping(value: Any, path: str) -> dict[str, Any]:
    """The map at ``path``; empty where it is absent or null. Raises DemandError."""
    found = one(value, path)
    if found is None:
        return {}
    place, held = found
    if type(held) is not dict:
        raise DemandError(path=place, reason="not an object")
    return held
