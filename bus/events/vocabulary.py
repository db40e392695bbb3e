"""The vocabulary of facts: wire type, version and upcasts stand on the class itself.

A fact is a frozen struct; its fields are its JSON body. ``wire_type`` is ``entity.participle``; ``version`` grows
when the shape of the body changes for old readers or old bodies. Then ``upcasts`` lifts an old body, one version at
a time, so a replay of old history needs no old code.

The bodies are msgspec structs (3 to 7 times the speed of pydantic on the hot path, tests/benchmarks/README.md);
their public description is the JSON Schema of ``bursar events --schema``, printed from the same classes, so no
second definition exists.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self

import msgspec

from bus.envelope import Event
from bus.errors import EnvelopeError, UnknownEventTypeError, UnsupportedVersionError
from bus.strict import is_deep

Upcast = Callable[[dict[str, Any]], dict[str, Any]]


class Fact(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The common part of all bodies: a name on the wire, a version, and steps from older versions."""

    wire_type: ClassVar[str] = ""
    version: ClassVar[int] = 1
    upcasts: ClassVar[Mapping[int, Upcast]] = {}
    #: By newer version: the function from its body to one of this version. It comes one release before that version
    #: is written.
    downcasts: ClassVar[Mapping[int, Upcast]] = {}

    def event(self, *, cluster: str, key: str, id: str, source: str, time_us: int) -> Event:
        """This fact as a publishable event."""
        return Event(
            cluster,
            self.wire_type,
            key,
            id,
            source,
            time_us,
            msgspec.json.encode(self),
            self.version,
        )

    @classmethod
    def read(cls, event: Event) -> Self:
        """The body of ``event`` as this class, lifted from older versions, or lowered from a known newer one.

        Raises UnsupportedVersionError for any other version newer than this code, EnvelopeError for an invalid
        body.
        """
        known = _recent[event.sequence % RECENT]
        if known is not None and known[0] is event and type(known[1]) is cls:
            return known[1]
        if event.version > cls.version and event.version not in cls.downcasts:
            raise UnsupportedVersionError(type=event.type, version=event.version, known=cls.version)
        if is_deep(event.body):
            # Whether a decoder gives up would depend on how deep its caller's stack is.
            raise EnvelopeError(
                "the body does not fit", type=event.type, reason="it nests too deep"
            )
        if event.version == cls.version:
            try:
                fact = _decoder(cls).decode(event.body)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise EnvelopeError(
                    "the body does not fit", type=event.type, reason=str(error)
                ) from error
            remember(event, fact)
            return fact  # type: ignore[no-any-return]
        return cls._converted(event)

    @classmethod
    def _converted(cls, event: Event) -> Self:
        try:
            body = msgspec.json.decode(event.body, type=dict[str, Any])
            if event.version > cls.version:
                body = cls.downcasts[event.version](body)
            for step in range(event.version, cls.version):
                body = cls.upcasts[step](body)
            return msgspec.convert(body, cls)
        except KeyError as error:
            raise EnvelopeError(
                "no upcast from this version", type=event.type, version=event.version
            ) from error
        except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError) as error:
            raise EnvelopeError(
                "the body does not fit", type=event.type, reason=str(error)
            ) from error


#: Number of remembered facts. All readers of the history in one process receive the same events, a few at a time.
RECENT = 256
#: By place of the event's sequence: recently read events, and their facts. Several folds read each event, and it is
#: decoded for the first. The result is a function of the event alone.
_recent: list[tuple[Event, Fact] | None] = [None] * RECENT


def remember(event: Event, fact: Fact) -> None:
    """Let :meth:`Fact.read` give this fact for ``event`` for a while: the maker of an event need not decode it."""
    _recent[event.sequence % RECENT] = (event, fact)


_decoders: dict[type[Fact], msgspec.json.Decoder[Any]] = {}


def _decoder(fact: type[Fact]) -> msgspec.json.Decoder[Any]:
    decoder = _decoders.get(fact)
    if decoder is None:
        decoder = _decoders[fact] = msgspec.json.Decoder(fact)
    return decoder


def vocabulary(*facts: type[Fact]) -> dict[str, type[Fact]]:
    """Wire type → class. Raises ValueError when two classes claim one wire type."""
    known: dict[str, type[Fact]] = {}
    for fact in facts:
        if fact.wire_type in known:
            raise ValueError(f"two facts are called {fact.wire_type!r}")
        known[fact.wire_type] = fact
    return known


def read(event: Event, known: Mapping[str, type[Fact]]) -> Fact:
    """The fact in ``event``. Raises UnknownEventTypeError, UnsupportedVersionError or EnvelopeError: park it."""
    if event.defect:
        raise EnvelopeError("the envelope could not be read", reason=event.defect)
    fact = known.get(event.type)
    if fact is None:
        raise UnknownEventTypeError(type=event.type)
    return fact.read(event)
