"""The current policy of each reactor, and the pause of all: folded from the history. Pure.

Source: docs/architecture.md.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec
from pydantic import BaseModel, ValidationError
from pydantic_core import to_jsonable_python

from bus.envelope import Event
from bus.errors import EnvelopeError
from bus.events.policies import Mode, PauseChanged, PolicyChanged
from bus.events.vocabulary import Fact
from projections.engine.parts import Part
from reactors.engine.settings import ReactorPolicy


class Current(msgspec.Struct, frozen=True):
    """The current mode and policy of a reactor."""

    mode: Mode
    policy: ReactorPolicy
    digest: str


class SavedPolicy(msgspec.Struct):
    """One policy in a snapshot."""

    mode: Mode
    policy: dict[str, Any]
    digest: str


class Pause(msgspec.Struct, frozen=True):
    """The current pause of all reactors: its author, its time (microseconds) and its reason."""

    author: str
    since_us: int
    reason: str


class SavedPolicies(msgspec.Struct):
    """All policies in a snapshot."""

    pause: Pause | None
    current: dict[str, SavedPolicy]


class Policies(Part):
    """``types``: reactor to the class of its policy. Others are not known here, and left out."""

    Saved = SavedPolicies
    derived = frozenset({"_types", "_current"})

    reads: ClassVar[tuple[type[Fact], ...]] = (PauseChanged, PolicyChanged)

    def __init__(self, types: Mapping[str, type[ReactorPolicy]]) -> None:
        self.pause: Pause | None = None
        self._types = types
        self._current: dict[str, Current] = {}

    @property
    def is_paused(self) -> bool:
        """All reactors are paused."""
        return self.pause is not None

    def apply(self, fact: Fact, event: Event) -> None:
        """Fold one event. An unreadable policy leaves its reactor without one, and raises EnvelopeError:
        the old policy is revoked, so going on with it would be wrong.
        """
        if isinstance(fact, PauseChanged):
            paused = Pause(fact.author, event.time_us, fact.reason)
            self.pause = paused if fact.is_paused else None
        elif isinstance(fact, PolicyChanged) and (known := self._types.get(fact.reactor)):
            self._current.pop(fact.reactor, None)
            try:
                policy = known.model_validate(fact.policy)
            except ValidationError as error:
                raise EnvelopeError(
                    "a policy cannot be read", reactor=fact.reactor, errors=error.error_count()
                ) from error
            self._current[fact.reactor] = Current(fact.mode, policy, fact.digest)

    def saved(self) -> SavedPolicies:
        """The content of a snapshot, with policies as in their facts."""
        current = {
            name: SavedPolicy(one.mode, _canonical(one.policy), one.digest)
            for name, one in self._current.items()
        }
        return SavedPolicies(self.pause, current)

    def restore(self, saved: SavedPolicies) -> None:
        """Load a snapshot. Raises ValueError or KeyError for a policy that this program cannot read."""
        self.pause = saved.pause
        for name, one in saved.current.items():
            policy = self._types[name].model_validate(one.policy)
            self._current[name] = Current(one.mode, policy, one.digest)

    def of(self, reactor: str) -> Current | None:
        """The current mode and policy of a reactor; None = none was set, so it does nothing."""
        return self._current.get(reactor)


def policy_changed(
    reactor: str, mode: Mode, policy: ReactorPolicy, *, author: str
) -> PolicyChanged:
    """The fact of a new ``policy`` for ``reactor``: equal policies give equal bytes."""
    body: dict[str, Any] = _canonical(policy)
    content = msgspec.json.encode({"mode": mode, "policy": body}, order="sorted")
    digest = hashlib.sha256(content).hexdigest()
    return PolicyChanged(reactor=reactor, mode=mode, policy=body, digest=digest, author=author)


def _canonical(value: Any) -> Any:
    """JSON values of a model, with sets sorted: their own order differs between processes."""
    if isinstance(value, BaseModel):
        return {name: _canonical(getattr(value, name)) for name in sorted(type(value).model_fields)}
    if isinstance(value, Mapping):
        return {str(key): _canonical(inner) for key, inner in sorted(value.items())}
    if isinstance(value, set | frozenset):
        return sorted((_canonical(inner) for inner in value), key=repr)
    if isinstance(value, list | tuple):
        return [_canonical(inner) for inner in value]
    return to_jsonable_python(value, fallback=str)
