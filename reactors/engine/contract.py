"""The contract of a reactor: a name, a state folded from the history, triggers, a policy, and a pure ``decide``.

A reactor is a replicated state machine. Its state before a trigger is the fold of the history up to it, plus all
decisions appended before its own. So the right decisions can be derived later from the history alone
(:mod:`reactors.engine.verify`), and a second process decides the same on the same trigger.

Source: docs/architecture.md.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Protocol

import msgspec

from bus.envelope import Event
from bus.events.decisions import Decision, Target
from bus.events.vocabulary import Fact
from bus.metrics import Metric
from projections.cluster import ClusterState
from projections.quota_trees.forest import QuotaTrees
from reactors.engine.policies import Current
from reactors.engine.settings import ReactorPolicy, ReactorSettings


class Conclusion(Protocol):
    """A fact decided on the history up to ``after``, at the time of that event."""

    @property
    def after(self) -> int:
        """The newest known event."""

    @property
    def at_us(self) -> int:
        """Its time, microseconds UTC."""

    @property
    def rules(self) -> int:
        """Version of the reactor's rules."""

    def event(self, *, cluster: str, key: str, id: str, source: str, time_us: int) -> Event:
        """The fact as an event."""


class ReviewQuestion(msgspec.Struct, frozen=True):
    """A request for a decision, other than an event. Base of all such requests."""


class Trigger(msgspec.Struct, frozen=True):
    """The event or review behind a decision, and its time (microseconds UTC). Rules know no other present.

    ``sequence``: the event's; for a review, the newest known event.
    """

    sequence: int
    at_us: int
    fact: Fact | ReviewQuestion


class ProposedDecision(msgspec.Struct, frozen=True, kw_only=True):
    """A decision as a reactor's rules make it. ``key`` is unique within one trigger."""

    verb: type[Decision]
    key: str
    target: Target
    #: The quota in question; "" = none.
    quota: str = ""
    reason: str
    numbers: dict[str, int] = {}
    #: Until when it may be done.
    expires_us: int
    #: The fields of this verb beside those of every decision.
    fields: Mapping[str, Any] = {}
    #: Recorded and never done, also where the reactor is on.
    is_shadow: bool = False


class Rest(msgspec.Struct, frozen=True):
    """An action held back by its own reactor: its draft, the reason, and the end of the wait (0 = unknown)."""

    draft: ProposedDecision
    reason: str
    until_us: int = 0


class Concluded(msgspec.Struct, frozen=True):
    """A decision on all events read together. ``name`` makes it unique among those on one event.

    It takes effect at its place in the history, in its own process as in every other.
    """

    key: str
    name: str
    fact: Conclusion


class State(Protocol):
    """The state of a reactor beside that of the cluster. It reads the cluster's state and never writes it.

    A snapshot holds it, with the methods of :class:`projections.engine.parts.Part`.
    """

    #: The facts that change it, or bases of them. It is given no others, and a process reads no others for it.
    reads: ClassVar[tuple[type[Fact], ...]]

    def apply(self, fact: Fact, event: Event) -> None:
        """Fold one event of this cluster, after the cluster's state did. Own decisions come once each, from the
        moment they are made. Total and pure but for the state itself.
        """

    @property
    def Saved(self) -> type[msgspec.Struct]:  # noqa: N802
        """The shape of its snapshot."""

    def saved(self) -> Any:
        """The content of its snapshot."""

    def restore(self, saved: Any) -> None:
        """Load a snapshot into a new state beside the restored state of the cluster."""


class Reactor(msgspec.Struct, frozen=True, kw_only=True):
    """One activity. Everything here but ``state`` is a pure function of its arguments.

    ``version`` grows when the same history would be decided differently.
    """

    name: str
    version: int
    #: None: it has none, and runs wherever it can.
    policy: type[ReactorPolicy] | None
    #: Its section of the settings, under the reactor's name.
    settings: type[ReactorSettings]
    #: Its action, for people: "culling", "giving back".
    activity: str
    #: Makes an empty state beside those of the cluster and of its quota trees, for it to read.
    state: Callable[[ClusterState, QuotaTrees], State]
    triggers: tuple[type[Fact | ReviewQuestion], ...]
    #: Whether the newest event, one of ``triggers``, is anything to decide on; None = each is. A tick always is.
    is_concerned: Callable[[Any], bool] | None = None
    #: (state, trigger, policy) to drafts, the most urgent first: limits cut the rest off. On a review: to the facts themselves.
    decide: Callable[[Any, Trigger, Any], Sequence[Any]]
    #: How many objects are in its care: the interlocks' limit is a share of them.
    managed: Callable[[Any], int] = lambda state: 0
    #: (state, decision, policy) to why it must not be done any more, a token; "" = it may.
    overtaken: Callable[[Any, Decision, Any], str] = lambda state, decision, policy: ""
    #: Its effectors and background tasks, from the adapters of one process.
    effects: Callable[[Any], Any]
    #: Its metrics for a scraper, as of the newest folded event.
    metrics: Callable[[Any], Iterator[Metric]] = lambda replica: iter(())
    #: By runner, the number of objects in its scope, for reactors with other possible runners.
    run_by: Callable[[Any], Mapping[str, int]] = lambda replica: {}
    #: Wire types of events, its own included. A decision fails if another process appended one of them since.
    expects: str = "decision.*"
    #: The wire type of its conclusions; another process may not have appended one either.
    concludes_as: str = ""
    #: (state, current policy) to one decision on all events read together; the next follows after that decision was read.
    #: It depends on the state alone, not on the process, so it can be derived again from the history.
    concludes: Callable[[Any, Current], Sequence[Concluded]] | None = None
    #: Kinds of objects published at once while it is on, for a little more CPU: users wait for its effects.
    hears_at_once: frozenset[str] = frozenset()
    #: (state, trigger, policy) to due decisions outside the drafts, to explain them to people.
    rests: Callable[[Any, Trigger, Any], Iterable[Rest]] = lambda state, trigger, policy: ()


def decision_id(reactor: str, sequence: int, key: str) -> str:
    """The id of the decision of ``reactor`` about ``key`` on the event ``sequence``: 32 hex digits."""
    return hashlib.sha256(f"{reactor}\n{sequence}\n{key}".encode()).hexdigest()[:32]
