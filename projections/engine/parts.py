"""The contract of every part of a state that a snapshot holds: named fields out, named fields in. Pure.

A part is folded from the history, so a snapshot of it at a sequence is as good as the events up to there. ``Saved`` names the
attributes that a snapshot holds, with their types; what follows from those is made anew. Fields are plain values and structs:
a snapshot is data, and reading one runs nothing that is in it.

:func:`shape` writes down every name and type below a part. The version of a snapshot is made of it, so a part of another
shape has another version, and nobody can forget that.

Source: docs/architecture.md (snapshots).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from functools import cache
from typing import Any, ClassVar

import msgspec
from msgspec import inspect

from bus.events import VOCABULARY
from bus.events.decisions import Decision


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
    """A part of a state. A new one that took :meth:`restore` is like the one that gave :meth:`saved`."""

    #: The attributes that a snapshot holds.
    Saved: ClassVar[type[msgspec.Struct]]
    #: The other attributes: they follow from the saved ones, or belong to a process and not to the history.
    derived: ClassVar[frozenset[str]] = frozenset()

    def saved(self) -> Any:
        """What a snapshot holds. It shares values with the part: encode it before the next event."""
        fields = self.Saved.__struct_fields__
        return self.Saved(**{name: _saved(getattr(self, name)) for name in fields})

    def restore(self, saved: Any) -> None:
        """Become what was saved. ``saved`` was decoded for this part alone. Raises ValueError or KeyError where it is wrong."""
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
    """Set an attribute. Others may hold a collection, so that is filled in its place."""
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
def shape(*types: Any) -> str:
    """Every name and type below ``types``, as text: another text means that one cannot be read as the other."""
    return "\n".join(_shape(inspect.type_info(one)) for one in types)


def _shape(found: Any) -> str:
    name = type(found).__name__
    cls = getattr(found, "cls", None)
    if cls is not None:
        name += f" {cls.__qualname__}"
    fields = getattr(found, "fields", None)
    if fields is not None:
        inner = [f"{one.encode_name}: {_shape(one.type)}" for one in fields]
        return f"{name}({', '.join(inner)})"
    inner = [_shaped(getattr(found, one)) for one in found.__struct_fields__ if one != "cls"]
    return f"{name}[{', '.join(inner)}]" if inner else name


def _shaped(value: Any) -> str:
    if isinstance(value, inspect.Type):
        return _shape(value)
    if isinstance(value, tuple):
        return f"({', '.join(map(_shaped, value))})"
    return repr(value)
