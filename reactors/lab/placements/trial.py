"""The scheduler under another policy on recorded history, with the live reactor in the live state machine.

A replica reads each recorded event as changed by :mod:`reactors.lab.placements.world`. Waiting pods are tried a moment later and
bound at once; victims of preemption are evicted at the same time.

Source: docs/lab.md.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

import msgspec

from bus.envelope import Event
from bus.errors import EnvelopeError, TimestampError
from bus.events import VOCABULARY
from bus.events.clock import ClockTicked
from bus.events.decisions import (
    BindSettled,
    Decision,
    EffectSettled,
    FailedBind,
    SchedulingPassed,
)
from bus.events.policies import PolicyChanged
from bus.events.vocabulary import Fact, read
from projections.cluster.rows import Node
from reactors.engine.replica import Replica, decision_event
from reactors.lab.placements.lives import PodLives
from reactors.lab.placements.world import RULES, PlacementRule, PlacementWorld, Stay, differing
from reactors.lab.synthetic import event_at, govern, restored, saved
from reactors.scheduling import NAME
from reactors.scheduling.reactor import reactor
from reactors.scheduling.settings import SchedulingPolicy
from reactors.scheduling.state import SchedulingState

#: Longest time from a pod's arrival to its attempt, together with all pods arrived meanwhile: a live batch is read as fast.
PASS_US = 100_000
#: Later than any time of an event.
NEVER_US = 2**64
#: Most passes in a row. Each pass tries other pods, so only a fault reaches this bound.
MOST_PASSES = 10_000


class PlacementsPlayed(msgspec.Struct, frozen=True):
    """The result of one rule: all waiting pods. ``until_us``: the end of the known history."""

    rule: PlacementRule
    stays: tuple[Stay, ...]
    until_us: int


class PlacementTrial:
    """A replica under trial, by one rule."""

    def __init__(
        self, cluster: str, rule: PlacementRule, policy: SchedulingPolicy, lives: PodLives, known: bytes,
    ) -> None:  # fmt: skip
        self._replica = restored(reactor, cluster, known)
        state = self._replica.states[NAME]
        assert isinstance(state, SchedulingState)
        self._state, self._rule = state, rule
        names = tuple(one.name for one in policy.profiles)
        self._world = PlacementWorld(rule, lives, names)
        #: Since this time a pod may be placed; None = no pod.
        self._since_us: int | None = None
        #: Delays from a possible placement to its attempt, and to its bind; and the times of these binds.
        self._pass_us = min(PASS_US, lives.bind_us)
        self._bind_us = lives.bind_us - self._pass_us
        self._binds = deque[int]()
        self._last: Event | None = None
        govern(self._replica, NAME, "on", policy, self._state.at_us)
        if any(self._state.outstanding):
            # The policy on record placed it earlier; the record has not shown the bind yet.
            self._binds.append(self._state.at_us + self._bind_us)

    @property
    def reads(self) -> tuple[str, ...]:
        """The types of the events read by the trial."""
        return self._replica.reads

    def open(self, fact: Fact, event: Event) -> None:
        """Take the last observation of a waiting pod before the first event."""
        self._see(self._world.seen(fact, event))
        self._note(event)

    def apply(self, fact: Fact, event: Event) -> None:
        """Read the next recorded event."""
        self._pass_time(event.time_us)
        if not _is_own(fact):
            self._see(self._world.seen(fact, event))
            if isinstance(fact, ClockTicked):
                self._evict(event)
        self._note(event)

    def end(self, until_us: int) -> PlacementsPlayed:
        """The findings, after the last event."""
        self._pass_time(until_us)
        return PlacementsPlayed(self._rule, tuple(self._world.stays), until_us)

    def _fold(self, event: Event) -> None:
        self._replica.apply(event)
        for change in self._replica.cluster_state.changes(event):
            if isinstance(change.before, Node) and change.after is None:
                self._see(self._world.lose_node(change.before.name, event))

    def _note(self, event: Event) -> None:
        self._last = event
        if self._since_us is None and self._is_due():
            self._since_us = event.time_us

    def _is_due(self) -> bool:
        """Whether a pod is due, as of the newest event read by the scheduler."""
        scheduler, at_us = self._state.scheduler, self._state.at_us
        return scheduler is not None and any(q.due(at_us, 1) for q in scheduler.queues.values())

    def _pass_time(self, until_us: int) -> None:
        """End, place and bind pods due before a moment."""
        while self._last is not None:
            tried_us = self._since_us + self._pass_us if self._since_us is not None else NEVER_US
            binds_us = self._binds[0] if self._binds else NEVER_US
            ends_us = self._world.next_end_us or NEVER_US
            next_us = min(tried_us, binds_us, ends_us)
            if next_us > until_us:
                return
            at = self._at(next_us)
            if next_us == ends_us:
                self._see(self._world.end_next(at))
            elif next_us == binds_us:
                self._binds.popleft()
                self._bind(at)
            else:
                # A due pod may be left, as reactors are paused or a gang rests: an event starts the next attempt.
                self._since_us, self._last = None, at
                self._try(at)
                continue
            self._note(at)

    def _see(self, events: Iterable[Event]) -> None:
        for event in [*events]:
            self._fold(event)

    def _at(self, at_us: int) -> Event:
        """The newest event read, at another time."""
        assert self._last is not None
        return msgspec.structs.replace(self._last, time_us=max(at_us, self._last.time_us))

    def _try(self, at: Event) -> None:
        """Place all pods possible now."""
        for _ in range(MOST_PASSES):
            made = self._replica.concluded()
            for passes in made.values():
                for one in passes:
                    passed = msgspec.structs.replace(one, sequence=at.sequence, time_us=at.time_us)
                    self._replica.apply(passed)
                    self._evict(passed)
            if not made or not self._is_due():
                break
        if any(self._state.outstanding):
            self._binds.append(at.time_us + self._bind_us)

    def _bind(self, at: Event) -> None:
        """Bind all due pods; pods waiting for their gang are bound with its last member."""
        failed = []
        for one in [*self._state.outstanding]:
            if one.at_us + self._bind_us > at.time_us:
                continue
            why = self._state.overtaken(one)
            if why:
                failed.append(FailedBind(one.uid, one.passed, "stale", why))
            else:
                self._see(self._world.place(one.uid, one.node, at))
        if failed:
            self._replica.apply(event_at(BindSettled(failed=tuple(failed)), at.key, at))

    def _evict(self, at: Event) -> None:
        """Evict the victims of preemption."""
        scheduler = self._state.scheduler
        if scheduler is None or scheduler.preemption != "on" or not scheduler.nominations.all:
            return
        for decision in self._replica.decide(at):
            event = decision_event(decision, at.cluster)
            self._replica.apply(msgspec.structs.replace(event, sequence=at.sequence))
            settled = EffectSettled(decision=decision.id, reactor=NAME, result="done")
            self._replica.apply(event_at(settled, decision.id, at))
            self._see(self._world.lose(decision.key, at, is_evicted=True))


class PlacementLab:
    """Policies on the record, each under every rule. All of them read the same events once.

    ``lives``: the lives of all recorded pods. ``known``: the reactors' state before the first event.
    """

    def __init__(
        self,
        cluster: str,
        policies: Sequence[SchedulingPolicy],
        lives: PodLives,
        *,
        known: Replica | None = None,
        rules: Sequence[PlacementRule] = RULES,
    ) -> None:
        knew = saved(known, reactor)
        self._lives = lives
        self._rules = rules
        # A rule without a difference from the likely one for any recorded pod is not played.
        played = [RULES[0], *(rule for rule in rules if rule in differing(lives))]
        self._trials = [
            [PlacementTrial(cluster, rule, policy, lives, knew) for rule in played]
            for policy in policies
        ]

    @property
    def reads(self) -> tuple[str, ...]:
        """The types of the events read by the trials."""
        return self._trials[0][0].reads

    def open(self, events: Iterable[Event]) -> None:
        """Take the last observation of each waiting pod before the record."""
        for event in events:
            fact = read(event, VOCABULARY)
            for trial in self._each():
                trial.open(fact, event)

    def play(self, events: Iterable[Event]) -> None:
        """Read these events of the cluster, in order. An unreadable event changes nothing, as it does live."""
        for event in events:
            try:
                fact = read(event, VOCABULARY)
            except EnvelopeError:
                continue
            for trial in self._each():
                with suppress(EnvelopeError, TimestampError):
                    trial.apply(fact, event)

    def end(self) -> list[list[PlacementsPlayed]]:
        """The findings, by policy and rule."""
        return [[*self._ended(trials)] for trials in self._trials]

    def _ended(self, trials: Sequence[PlacementTrial]) -> Iterator[PlacementsPlayed]:
        found = {one.rule: one for one in (trial.end(self._lives.last_us) for trial in trials)}
        for rule in self._rules:
            yield found.get(rule) or msgspec.structs.replace(found[RULES[0]], rule=rule)

    def _each(self) -> Iterable[PlacementTrial]:
        return (trial for of_policy in self._trials for trial in of_policy)


def _is_own(fact: Fact) -> bool:
    """Whether a fact belongs to the recorded placements, as the trial makes those decisions anew."""
    if isinstance(fact, SchedulingPassed | BindSettled):
        return True
    return isinstance(fact, Decision | EffectSettled | PolicyChanged) and fact.reactor == NAME
