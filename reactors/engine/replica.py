"""All reactors of one cluster as one state machine over its history: fold, decide, count. Pure but for its own state.

The runner drives it with the live history, :mod:`reactors.engine.verify` with a recorded one.

Source: docs/architecture.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import ClassVar

import msgspec

from bus.envelope import Event
from bus.events import VOCABULARY
from bus.events.clock import ClockTicked
from bus.events.decisions import Decision
from bus.events.vocabulary import Fact, read
from projections.cluster import ClusterState
from projections.cluster.state import SavedCluster
from projections.engine.parts import Part, shape
from projections.quota_trees.forest import QuotaTrees, SavedForest
from reactors.engine.contract import (
    Concluded,
    ProposedDecision,
    Reactor,
    ReviewQuestion,
    State,
    Trigger,
    decision_id,
)
from reactors.engine.effects import Effects, SavedEffects
from reactors.engine.interlocks import Interlocks, SavedInterlocks
from reactors.engine.policies import Current, Policies, SavedPolicies

#: Most decisions on one trigger: they are one atomic batch, and the next tick comes soon.
MOST = 500


class Blocked(msgspec.Struct, frozen=True):
    """A due decision that is not made: its content, the token of its obstacle, and the end of that (0 = unknown)."""

    decision: Decision
    reason: str
    until_us: int = 0


class SavedReplica(msgspec.Struct):
    """A replica in a snapshot, with each reactor's own state by the reactor's name."""

    sequence: int
    last: dict[str, int]
    cluster_state: SavedCluster
    quota_trees: SavedForest
    interlocks: SavedInterlocks
    effects: SavedEffects
    policies: SavedPolicies
    own: dict[str, msgspec.Raw]


class Replica(Part):
    """The known and decided state of ``cluster``. Events of other clusters change nothing."""

    #: The owner of its snapshots: see :class:`reactors.engine.snapshots.Knows`.
    name: ClassVar[str] = "reactors"
    Saved = SavedReplica
    derived = frozenset(
        {"cluster", "reactors", "states", "withheld", "_ahead", "_triggers", "_appliers"}
    )

    def __init__(self, reactors: Sequence[Reactor], cluster: str) -> None:
        self.cluster = cluster
        self.reactors = {reactor.name: reactor for reactor in reactors}
        self.policies = Policies(
            {one.name: one.policy for one in reactors if one.policy is not None}
        )
        self.interlocks = Interlocks()
        self.effects = Effects()
        self.cluster_state = ClusterState()
        self.quota_trees = QuotaTrees()
        self.states: dict[str, State] = {
            one.name: one.state(self.cluster_state, self.quota_trees) for one in reactors
        }
        #: Decisions dropped at the newest trigger because of a limit: key to token.
        self.withheld: dict[str, str] = {}
        #: The newest folded event.
        self.sequence = 0
        #: Events expected by reactors, see :attr:`Reactor.expects` and ``concludes_as``, to the newest one, made here or read.
        self.last = {
            name: 0 for one in reactors for name in (one.expects, one.concludes_as) if name
        }
        #: Own decisions that were folded when made, and are still to be read.
        self._ahead: set[str] = set()
        self._triggers = {
            name: those
            for name, fact in VOCABULARY.items()
            if (those := [one for one in reactors if fact in one.triggers])
        }
        #: By wire type: the readers of such a fact, in this order.
        self._appliers = {
            name: takers
            for name, fact in VOCABULARY.items()
            if (takers := self._appliers_of(fact)) or name in self._triggers
        }

    @property
    def reads(self) -> tuple[str, ...]:
        """The types of the events that change it, as its parts declare them. It needs no others."""
        return tuple(self._appliers)

    @property
    def version(self) -> str:
        """The version of snapshots for this replica: these reactors by their rules, and parts of this shape."""
        parts = (SavedReplica, *(state.Saved for state in self.states.values()))
        decisions = (fact for fact in VOCABULARY.values() if issubclass(fact, Decision))
        rules = [f"{one.name} {one.version}" for one in self.reactors.values()]
        return "\n".join([*rules, shape(*parts, *decisions)])

    @property
    def is_pure(self) -> bool:
        """Whether it is the fold of the history up to its sequence: no own decision is still to be read."""
        return not self._ahead

    @property
    def own(self) -> dict[str, msgspec.Raw]:
        """Each reactor's own state in a snapshot."""
        encode = msgspec.msgpack.encode
        return {name: msgspec.Raw(encode(state.saved())) for name, state in self.states.items()}

    def restore(self, saved: SavedReplica) -> None:
        """Load a snapshot into a new replica of the same reactors. Raises ValueError or KeyError if it is wrong."""
        super().restore(saved)
        for name, state in self.states.items():
            state.restore(msgspec.msgpack.decode(saved.own[name], type=state.Saved))

    def apply(self, event: Event) -> None:
        """Fold the next event. Raises EnvelopeError for an unreadable one, UnsupportedVersionError for a newer one."""
        self.sequence = event.sequence
        if event.cluster != self.cluster or event.type not in self._appliers:
            return
        if event.id in self._ahead:
            self._ahead.discard(event.id)
            self._stored(event)
            return
        self._fold(read(event, VOCABULARY), event)

    def made(self, events: Sequence[Event]) -> None:
        """Fold own stored decisions, before they are read."""
        for event in events:
            self._ahead.add(event.id)
            self._fold(read(event, VOCABULARY), event)

    def is_trigger(self, event: Event) -> bool:
        """Whether a reactor decides on ``event``, the last folded one."""
        if event.cluster != self.cluster:
            return False
        return any(
            one.is_concerned is None
            or event.type == ClockTicked.wire_type
            or one.is_concerned(self.states[one.name])
            for one in self._triggers.get(event.type, ())
        )

    def decide(self, event: Event) -> list[Decision]:
        """The decisions on ``event``, the last folded one. This does not make them.

        A reactor that is off decides only on requests of people.
        """
        trigger = Trigger(event.sequence, event.time_us, read(event, VOCABULARY))
        gate = self.interlocks.gate(trigger.at_us)
        if isinstance(trigger.fact, ClockTicked):
            self.withheld = {}
        found: list[Decision] = []
        for reactor in self.reactors.values():
            current = self.policies.of(reactor.name)
            if current is None or not isinstance(trigger.fact, reactor.triggers):
                continue
            state = self.states[reactor.name]
            managed = reactor.managed(state)
            for draft in reactor.decide(state, trigger, current.policy):
                if current.mode == "off" and not draft.verb.is_asked:
                    continue
                decision = _made(reactor, draft, trigger, current)
                if self.policies.is_paused and not decision.is_asked:
                    reason = "paused"
                else:
                    reason = gate.refuses(decision, managed=managed, pace=current.policy.pace)
                if reason:
                    self.withheld[draft.key] = reason
                else:
                    found.append(decision)
        return found[:MOST]

    def concluded(self) -> dict[str, list[Event]]:
        """The conclusions on all events read, by expected event, each a batch; they take effect when they are read."""
        found: dict[str, list[Event]] = {}
        for reactor in self.reactors.values():
            current = self.policies.of(reactor.name)
            if reactor.concludes is None or current is None or current.mode == "off":
                continue
            if not self.policies.is_paused:
                made = reactor.concludes(self.states[reactor.name], current)
                if made:
                    found[reactor.concludes_as] = [
                        concluded_event(reactor.name, one, self.cluster) for one in made
                    ]
        return found

    def review(self, reactor: str, asked: ReviewQuestion, at_us: int) -> Sequence[Fact]:
        """The decisions of a reactor without a policy on ``asked``. This does not make them."""
        decide, state = self.reactors[reactor].decide, self.states[reactor]
        return decide(state, Trigger(self.sequence, at_us, asked), None)

    def blocked(self, now_us: int) -> list[Blocked]:
        """Decisions due at ``now_us`` but blocked then, with their obstacles; for questions. Nothing is changed.

        The limits admit the decisions of that tick: the rest is blocked by them.
        """
        trigger = Trigger(self.sequence, now_us, ClockTicked())
        gate = self.interlocks.gate(now_us)
        found: list[Blocked] = []
        for reactor in self.reactors.values():
            current, state = self.policies.of(reactor.name), self.states[reactor.name]
            if current is None or current.mode == "off" or ClockTicked not in reactor.triggers:
                continue
            managed, pace = reactor.managed(state), current.policy.pace
            for draft in reactor.decide(state, trigger, current.policy):
                decision, until_us = _made(reactor, draft, trigger, current), 0
                if self.policies.is_paused and not decision.is_asked:
                    reason = "paused"
                else:
                    reason = gate.refuses(decision, managed=managed, pace=pace)
                    until_us = gate.until_us(decision, reason, managed=managed, pace=pace)
                if reason:
                    found.append(Blocked(decision, reason, until_us))
            for rest in reactor.rests(state, trigger, current.policy):
                decision = _made(reactor, rest.draft, trigger, current)
                found.append(Blocked(decision, rest.reason, rest.until_us))
        return found

    def overtaken(self, decision: Decision) -> str:
        """The reason why newer facts make ``decision`` wrong; "" = it is still right."""
        reactor = self.reactors.get(decision.reactor)
        current = self.policies.of(decision.reactor)
        if reactor is None or current is None:
            return "no_policy"
        return reactor.overtaken(self.states[reactor.name], decision, current.policy)

    def _fold(self, fact: Fact, event: Event) -> None:
        self._stored(event)
        for take in self._appliers[event.type]:
            take(fact, event)

    def _stored(self, event: Event) -> None:
        for pattern, known in self.last.items():
            if event.sequence > known and fnmatchcase(event.type, pattern):
                self.last[pattern] = event.sequence

    def _appliers_of(self, fact: type[Fact]) -> tuple[Callable[[Fact, Event], None], ...]:
        # An unreadable policy raises, so it comes last.
        parts: tuple[State, ...] = (
            self.interlocks,
            self.effects,
            *self.states.values(),
            self.policies,
        )
        found = [part.apply for part in parts if issubclass(fact, part.reads)]
        # The other parts read the cluster and the quotas as they are after the event.
        shared: tuple[ClusterState | QuotaTrees, ...] = (self.cluster_state, self.quota_trees)
        if found:
            found[:0] = [part.apply for part in shared if issubclass(fact, part.reads)]
        return tuple(found)


def _made(
    reactor: Reactor, draft: ProposedDecision, trigger: Trigger, current: Current
) -> Decision:
    return draft.verb(
        id=decision_id(reactor.name, trigger.sequence, draft.key),
        reactor=reactor.name,
        rules=reactor.version,
        key=draft.key,
        trigger=trigger.sequence,
        at_us=trigger.at_us,
        policy=current.digest,
        is_shadow=(current.mode == "shadow" or draft.is_shadow) and not draft.verb.is_asked,
        target=draft.target,
        quota=draft.quota,
        reason=draft.reason,
        numbers=draft.numbers,
        expires_us=draft.expires_us,
        **draft.fields,
    )


def concluded_event(reactor: str, made: Concluded, cluster: str) -> Event:
    """A reactor's conclusion on all events read, as an event: the same bytes in every process and at any time."""
    fact = made.fact
    return fact.event(
        cluster=cluster,
        key=made.key,
        id=decision_id(reactor, fact.after, made.name),
        source=f"reactor/{reactor}",
        time_us=fact.at_us,
    )


def decision_event(decision: Decision, cluster: str) -> Event:
    """The decision as an event: the same bytes in every process and at any time."""
    return decision.event(
        cluster=cluster,
        key=decision.key,
        id=decision.id,
        source=f"reactor/{decision.reactor}",
        time_us=decision.at_us,
    )
