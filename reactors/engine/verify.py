"""Verification of decisions: decides the whole history again by the rules and compares the bytes. Pure.

A conclusion on all events read (a pass of the scheduler) names the event of its decision. Its effect begins
at its own place, so it is compared at the one place and folded at the other.

A trigger without recorded decisions proves nothing: perhaps no process was running. Recorded decisions are one
atomic batch, so all of them and no others must be derived. Decisions by another version of a reactor's rules are skipped.

Source: docs/architecture.md.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from bus.envelope import Event
from bus.errors import EnvelopeError
from bus.events import VOCABULARY
from bus.events.decisions import Decision
from reactors.engine.contract import Reactor
from reactors.engine.replica import Replica, decision_event


class Mismatch(msgspec.Struct, frozen=True):
    """``what``: ``not_derived`` (recorded, but the rules do not make it), ``altered`` (they make another), ``missing``
    (they make it, but the recorded batch lacks it).
    """

    what: str
    decision: str
    #: Of the recorded decision, or of the trigger where there is none.
    sequence: int


class RederivedDecisions(msgspec.Struct, frozen=True):
    """The number of equal decisions, the number of skipped ones, and the mismatches."""

    same: int
    passed_over: int
    mismatches: tuple[Mismatch, ...]


def rederive(
    history: Callable[[], Iterable[Event]],
    reactors: Sequence[Reactor],
    cluster: str,
    decided: Iterable[Event] | None = None,
    known: Callable[[Replica, int], None] = lambda replica, before: None,
) -> RederivedDecisions:
    """Decide the history of ``cluster`` again. ``history`` returns all its events in order; ``decided`` are the decisions
    among them, read from ``history`` again if not given. ``known`` is called with the state before each event,
    with its sequence, and at the end.
    """
    recorded: dict[int, list[tuple[Event, Decision]]] = {}
    concluded = _Concluded(reactors)
    for event in decided if decided is not None else history():
        if event.cluster != cluster:
            continue
        decision = _decision(event)
        if decision is not None:
            recorded.setdefault(decision.trigger, []).append((event, decision))
        else:
            concluded.apply(event)
    replica = Replica(reactors, cluster)
    versions = {reactor.name: reactor.version for reactor in reactors}
    same, passed_over, found = 0, 0, list[Mismatch]()
    for event in history():
        known(replica, event.sequence)
        try:
            replica.apply(event)
        except EnvelopeError:
            # As live readers do: the ledger counts parked events.
            continue
        concluded.compare(event.sequence, replica)
        stored = recorded.pop(event.sequence, None)
        if stored is None:
            continue
        events = [one for one, _ in stored]
        if any(versions.get(decision.reactor) != decision.rules for _, decision in stored):
            passed_over += len(stored)
        else:
            derived = [decision_event(one, cluster) for one in replica.decide(event)]
            mismatches = _compared(events, derived, event.sequence)
            same += len(stored) - sum(one.what != "missing" for one in mismatches)
            found += mismatches
        replica.made(events)
    known(replica, sys.maxsize)
    for stored in recorded.values():
        found += [Mismatch("not_derived", one.id, one.sequence) for one, _ in stored]
    found += concluded.end()
    passed_over += concluded.passed_over
    return RederivedDecisions(same + concluded.same, passed_over, tuple(found))


class _Concluded:
    """Recorded conclusions on all events read, by the event of their decision."""

    def __init__(self, reactors: Sequence[Reactor]) -> None:
        self.same = 0
        self.passed_over = 0
        self._versions = {one.concludes_as: one.version for one in reactors if one.concludes}
        self._recorded: dict[int, list[tuple[Event, int]]] = {}
        self._found: list[Mismatch] = []

    def apply(self, event: Event) -> None:
        """The next event of the history."""
        if event.type not in self._versions:
            return
        try:
            fact: Any = VOCABULARY[event.type].read(event)
        except EnvelopeError:
            return
        self._recorded.setdefault(fact.after, []).append((event, fact.rules))

    def compare(self, sequence: int, replica: Replica) -> None:
        """Decide again on the state after the event ``sequence``, if a conclusion names it."""
        stored = self._recorded.pop(sequence, None)
        if stored is None:
            return
        events = [event for event, _ in stored]
        if any(self._versions[event.type] != rules for event, rules in stored):
            self.passed_over += len(stored)
            return
        derived = [one for batch in replica.concluded().values() for one in batch]
        mismatches = _compared(events, derived, sequence)
        self.same += len(stored) - sum(one.what != "missing" for one in mismatches)
        self._found += mismatches

    def end(self) -> list[Mismatch]:
        """The mismatches, after all events were read."""
        for stored in self._recorded.values():
            self._found += [Mismatch("not_derived", one.id, one.sequence) for one, _ in stored]
        return self._found


def _compared(stored: Sequence[Event], derived: Sequence[Event], trigger: int) -> list[Mismatch]:
    ours = {event.id: event for event in derived}
    found = []
    for event in stored:
        mine = ours.pop(event.id, None)
        if mine is None:
            found.append(Mismatch("not_derived", event.id, event.sequence))
        elif (mine.type, mine.key, mine.time_us, mine.body) != (
            event.type, event.key, event.time_us, event.body,
        ):  # fmt: skip
            found.append(Mismatch("altered", event.id, event.sequence))
    return found + [Mismatch("missing", id, trigger) for id in ours]


#: The types of decisions.
VERBS = {name: fact for name, fact in VOCABULARY.items() if issubclass(fact, Decision)}


def decided_types(reactors: Sequence[Reactor]) -> set[str]:
    """The wire types of all compared events: decisions, and conclusions of reactors on all events read."""
    return {*VERBS, *(one.concludes_as for one in reactors if one.concludes)}


def _decision(event: Event) -> Decision | None:
    """The decision in an event; None for others, and for an unreadable one: that is parked."""
    verb = VERBS.get(event.type)
    try:
        return verb.read(event) if verb is not None else None
    except EnvelopeError:
        return None
