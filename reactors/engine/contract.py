"""What a reactor is: a name, a state folded from the history, triggers, a policy, and a pure ``decide``.

A reactor is a replicated state machine. Its state before a trigger is the fold of the history up to it, plus all
decisions that were appended before its own. So it can be told afterwards, from the history alone, what must have been decided
(:mod:`reactors.engine.verify`), and a second process that decides the same trigger decides the same.

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
    """A fact that was decided on the history up to ``after``, at the time of that event."""

    @property
    def after(self) -> int:
        """The newest event that was known."""

    @property
    def at_us(self) -> int:
        """Its time, microseconds UTC."""

    @property
    def rules(self) -> int:
        """Version of the reactor's rules."""

    def event(self, *, cluster: str, key: str, id: str, source: str, time_us: int) -> Event:
        """The fact as an event."""


class Review(msgspec.Struct, frozen=True):
    """Something that a reactor is asked to decide on, and that is no event. Base of all such."""


class Trigger(msgspec.Struct, frozen=True):
    """The event or review on which is decided, and its time (microseconds UTC): the only present that rules know.

    ``sequence``: the event's, or of a review the newest event that was known.
    """

    sequence: int
    at_us: int
    fact: Fact | Review


class ProposedDecision(msgspec.Struct, frozen=True, kw_only=True):
    """A decision as a reactor's rules make it. ``key`` is unique within one trigger."""

    verb: type[Decision]
    key: str
    target: Target
    #: Which quota it is about; "" = none.
    quota: str = ""
    reason: str
    numbers: dict[str, int] = {}
    #: Until when it may be done.
    expires_us: int
    #: What this verb holds beside what every decision holds.
    fields: Mapping[str, Any] = {}
    #: Recorded and never done, also where the reactor is on.
    is_shadow: bool = False


class Rest(msgspec.Struct, frozen=True):
    """An action that its reactor holds back by itself: the draft it would make, why not yet, and until when (0 = unknown)."""

    draft: ProposedDecision
    reason: str
    until_us: int = 0


class Concluded(msgspec.Struct, frozen=True):
    """What a reactor decides on all that was read together. ``name`` makes it unique among those on one event.

    It takes effect where it stands in the history, in the process that decided it as in every other.
    """

    key: str
    name: str
    fact: Conclusion


class State(Protocol):
    """What a reactor knows beside the state of the cluster, which it reads and never writes.

    A snapshot holds it: see :class:`projections.engine.parts.Part`, whose ways these are.
    """

    #: The facts that change it, or bases of them. It is given no others, and a process reads no others for it.
    reads: ClassVar[tuple[type[Fact], ...]]

    def apply(self, fact: Fact, event: Event) -> None:
        """Fold one event of this cluster, which the cluster's state took before; own decisions come once each, from the
        moment they are made. Total and pure but for the state itself.
        """

    @property
    def Saved(self) -> type[msgspec.Struct]:  # noqa: N802
        """The shape of what a snapshot holds of it."""

    def saved(self) -> Any:
        """What a snapshot holds of it."""

    def restore(self, saved: Any) -> None:
        """Become what was saved, in a new state beside the restored state of the cluster."""


class Reactor(msgspec.Struct, frozen=True, kw_only=True):
    """One activity. Everything here but ``state`` is a pure function of its arguments.

    ``version`` grows when the same history would be decided differently.
    """

    name: str
    version: int
    #: None: it has none, and runs wherever it can.
    policy: type[ReactorPolicy] | None
    #: Its section of the settings, which stands there under the reactor's name.
    settings: type[ReactorSettings]
    #: What it does, for people: "culling", "giving back".
    activity: str
    #: Makes an empty state beside those of the cluster and of its quota trees, which it reads.
    state: Callable[[ClusterState, QuotaTrees], State]
    triggers: tuple[type[Fact | Review], ...]
    #: Whether the newest event, one of ``triggers``, is anything to decide on; None = each is. A tick always is.
    is_concerned: Callable[[Any], bool] | None = None
    #: (state, trigger, policy) to drafts, the most urgent first: limits cut the rest off. On a review: to the facts themselves.
    decide: Callable[[Any, Trigger, Any], Sequence[Any]]
    #: How many objects are in its care: the interlocks' limit is a share of them.
    managed: Callable[[Any], int] = lambda state: 0
    #: (state, decision, policy) to why it must not be done any more, a token; "" = it may.
    overtaken: Callable[[Any, Decision, Any], str] = lambda state, decision, policy: ""
    #: Who does what is decided, and what runs beside, by the adapters of one process.
    effects: Callable[[Any], Any]
    #: What a scraper sees of it, as of the newest event that was folded.
    metrics: Callable[[Any], Iterator[Metric]] = lambda replica: iter(())
    #: How many objects that it may run are run by whom, where others may run them, too.
    run_by: Callable[[Any], Mapping[str, int]] = lambda replica: {}
    #: Wire types of the events that no other process may have appended to since it decided; its own are among them.
    expects: str = "decision.*"
    #: The wire type of what it concludes, to which no other process may have appended either.
    concludes_as: str = ""
    #: (state, the policy in force) to what is decided once on all that was read together; the next is decided when that was read.
    #: What it is decided on is the state alone, so it depends on no process and is derived again from the history.
    concludes: Callable[[Any, Current], Sequence[Concluded]] | None = None
    #: Kinds of objects of which it hears at once while it is on, for a little more CPU: somebody waits for what it does.
    hears_at_once: frozenset[str] = frozenset()
    #: (state, trigger, policy) to what is due and not among the drafts, for people who ask why.
    rests: Callable[[Any, Trigger, Any], Iterable[Rest]] = lambda state, trigger, policy: ()


def decision_id(reactor: str, sequence: int, key: str) -> str:
    """The id of what ``reactor`` decides about ``key`` on the event ``sequence``: 32 hex digits."""
    return hashlib.sha256(f"{reactor}\n{sequence}\n{key}".encode()).hexdigest()[:32]
