"""The contract of every part of a state in a snapshot: named fields out, named fields in. Pure.

A part is folded from the history, so a snapshot at a sequence equals the events up to there. ``Saved`` lists the
attributes in a snapshot, with their types; values computed from those are made anew. Fields are plain values and
structs: a snapshot is data, and reading one executes no code from it.

:func:`shape` writes down every name and type below a part. The version of a snapshot contains it, so a part of
another shape always has another version.

Source: docs/architecture.md (snapshots).
"""

from __future__ import annotations

import re
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, ClassVar, get_args

import msgspec

from bus.events import VOCABULARY
from bus.events.decisions import Decision

_WORD = re.compile(r"[A-Za-z_]\w*")


class SavedDecision(msgspec.Struct, frozen=True):
    """A decision by its wire type: its class has no tag of its own."""

    verb: str
    body: msgspec.Raw

    @classmethod
    def of(cls, decision: Decision) -> SavedDecision:
        """The decision as a snapshot holds it."""
        return cls(decision.wire_type, msgspec.Raw(msgspec.msgpack.encode(decision)))

    @property
    def decision(self) -> Decision:
        """The decision itself. Raises KeyError or msgspec.DecodeError where this program knows no such decision."""
        found = msgspec.msgpack.decode(self.body, type=VOCABULARY[self.verb])
        assert isinstance(found, Decision)
        return found


class Part:
    """A part of a state. A new one after :meth:`restore` equals the source of :meth:`saved`."""

    #: The attributes in a snapshot.
    Saved: ClassVar[type[msgspec.Struct]]
    #: The other attributes: they follow from the saved ones, or belong to a process and not to the history.
    derived: ClassVar[frozenset[str]] = frozenset()

    def saved(self) -> Any:
        """The content of a snapshot. It shares values with the part: encode it before the next event."""
        fields = self.Saved.__struct_fields__
        return self.Saved(**{name: _saved(getattr(self, name)) for name in fields})

    def restore(self, saved: Any) -> None:
        """Load the saved values. ``saved`` was decoded for this part alone. Raises ValueError or KeyError for
        invalid ones.
        """
        for name in vars(self).keys() & saved.__struct_fields__:
            _put(self, name, getattr(saved, name))


def _saved(value: Any) -> Any:
    if isinstance(value, Part):
        return value.saved()
    # Collections hold values of one kind.
    if isinstance(value, dict) and isinstance(_first(value.values()), Part | Decision):
        return {key: _one(found) for key, found in value.items()}
    if isinstance(value, list) and isinstance(_first(value), Decision):
        return [_one(found) for found in value]
    return value


def _one(value: Any) -> Any:
    return SavedDecision.of(value) if isinstance(value, Decision) else _saved(value)


def _put(part: Part, name: str, value: Any) -> None:
    """Set an attribute. Other objects may hold a collection, so it is filled in its place."""
    known = getattr(part, name)
    if isinstance(known, Part):
        known.restore(value)
    elif isinstance(known, dict | set):
        known.clear()
        if isinstance(value, dict) and isinstance(_first(value.values()), SavedDecision):
            value = {key: one.decision for key, one in value.items()}
        known.update(value)
    elif isinstance(known, list | deque):
        known.clear()
        known.extend(one.decision if isinstance(one, SavedDecision) else one for one in value)
    else:
        setattr(part, name, value)


def _first(values: Iterable[Any]) -> Any:
    return next(iter(values), None)


@cache
def shape(*types: type[Any]) -> str:
    """Every name and type below ``types``, a sequence of structs, as text: different texts mean unreadable for each
    other.

    Annotations are not evaluated, as every question to the ledger would wait for it: only the names in them are
    looked up.
    """
    found: dict[type[Any], str] = {}
    waiting = deque(types)
    while waiting:
        one = waiting.popleft()
        if one not in found:
            texts = dict(_annotated(one, waiting))
            names = zip(one.__struct_fields__, one.__struct_encode_fields__, strict=True)
            fields = ", ".join(f"{encoded}: {texts[name]}" for name, encoded in names)
            found[one] = f"{one.__qualname__}({fields})"
    return "\n".join(found.values())


def _annotated(struct: type[Any], below: deque[type[Any]]) -> Iterator[tuple[str, str]]:
    """The text of each annotation, later ones over earlier ones; their structs are added to ``below``."""
    for one in reversed(struct.__mro__):
        names = vars(sys.modules[one.__module__])
        for name, annotation in vars(one).get("__annotations__", {}).items():
            text = annotation if isinstance(annotation, str) else repr(annotation)
            if not text.startswith("ClassVar"):
                named = [names.get(word) for word in _WORD.findall(text)]
                yield name, " = ".join((text, *_meant([annotation, *named], below)))


def _meant(values: Iterable[Any], below: deque[type[Any]]) -> Iterator[str]:
    """The targets of aliases among the values of names."""
    for value in values:
        if hasattr(value, "__struct_fields__"):
            below.append(value)
        elif inner := get_args(value):
            yield repr(value)
            yield from _meant(inner, below)
