"""Were these decisions what the rules make of this history? Decides all of it again and compares the bytes. Pure.

A trigger without recorded decisions proves nothing: nobody may have been there to decide. Where there are some, they are one
atomic batch, so all of them and no others must come out. Decisions by another version of a reactor's rules are passed over.

Source: docs/architecture.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from bus.envelope import Event
from bus.errors import EnvelopeError
from bus.events import VOCABULARY
from bus.events.decisions import Decision
from reactors.engine.contract import Reactor
from reactors.engine.replica import Replica, decision_event


class Mismatch(msgspec.Struct, frozen=True):
    """``what``: ``not_derived`` (recorded, and the rules do not make it), ``altered`` (they make another), ``missing``
    (they make it, and it was not recorded with the others).
    """

    what: str
    decision: str
    #: Of the recorded decision, or of the trigger where there is none.
    sequence: int


class Rederived(msgspec.Struct, frozen=True):
    """How many decisions came out the same, how many were passed over, and those that did not come out."""

    same: int
    passed_over: int
    mismatches: tuple[Mismatch, ...]


def rederive(
    history: Callable[[], Iterable[Event]],
    reactors: Sequence[Reactor],
    cluster: str,
    decided: Iterable[Event] | None = None,
) -> Rederived:
    """Decide the history of ``cluster`` again. ``history`` gives all its events in order; ``decided`` are the decisions
    among them, for which it is asked once more where they are not given.
    """
    recorded: dict[int, list[tuple[Event, Decision]]] = {}
    for event in decided if decided is not None else history():
        decision = _decision(event)
        if decision is not None and event.cluster == cluster:
            recorded.setdefault(decision.trigger, []).append((event, decision))
    replica = Replica(reactors, cluster)
    versions = {reactor.name: reactor.version for reactor in reactors}
    same, passed_over, found = 0, 0, list[Mismatch]()
    for event in history():
        try:
            replica.take(event)
        except EnvelopeError:
            # As live readers do: the ledger counts what is parked.
            continue
        said = recorded.pop(event.sequence, None)
        if said is None:
            continue
        events = [one for one, _ in said]
        if any(versions.get(decision.reactor) != decision.rules for _, decision in said):
            passed_over += len(said)
        else:
            derived = [decision_event(one, cluster) for one in replica.decide(event)]
            mismatches = _compared(events, derived, event.sequence)
            same += len(said) - sum(one.what != "missing" for one in mismatches)
            found += mismatches
        replica.made(events)
    for said in recorded.values():
        found += [Mismatch("not_derived", one.id, one.sequence) for one, _ in said]
    return Rederived(same, passed_over, tuple(found))


def _compared(said: Sequence[Event], derived: Sequence[Event], trigger: int) -> list[Mismatch]:
    ours = {event.id: event for event in derived}
    found = []
    for event in said:
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


def _decision(event: Event) -> Decision | None:
    """The decision in an event; None for others, and for one that cannot be read: that is parked."""
    verb = VERBS.get(event.type)
    try:
        return verb.read(event) if verb is not None else None
    except EnvelopeError:
        return None
