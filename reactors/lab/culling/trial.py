"""Culling under another policy on recorded history, with the live reactor in the live state machine.

A replica reads each recorded event as changed by :mod:`reactors.lab.culling.world`, and decides on each tick. As in a live
cluster, a decision takes effect a second later: a warning stands from then on. Interlocks, pauses and limits apply as they do
live.

Source: docs/lab.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TypeAlias

import msgspec

from bus.clock import SECOND_US
from bus.envelope import Event
from bus.errors import EnvelopeError, TimestampError
from bus.events import VOCABULARY
from bus.events.clock import ClockTicked
from bus.events.decisions import Cull, Decision, EffectSettled
from bus.events.notebooks import NotebookSampled
from bus.events.policies import Mode
from bus.events.vocabulary import Fact, read
from reactors.culling.policy import CullingPolicy
from reactors.culling.reactor import reactor
from reactors.culling.state import NAME, CullingState
from reactors.engine.replica import Replica, decision_event
from reactors.lab.comparison import Played
from reactors.lab.culling.due import DueNotebooks
from reactors.lab.culling.world import CulledSpan, NotebookWorld
from reactors.lab.pods import Earlier, HeldAt, Pods, unbound
from reactors.lab.rules import RULES, Rule, Sittings
from reactors.lab.synthetic import SOURCE, govern, restored, saved

#: The time for an effect.
EFFECT_US = SECOND_US


class Decided(msgspec.Struct, frozen=True):
    """A decision of the trial, and its pod on record."""

    uid: str
    team: str
    decision: Decision


CullingPlayed: TypeAlias = Played[Decided, CulledSpan]


class CullingTrial:
    """A replica under trial, by one rule."""

    def __init__(
        self, cluster: str, rule: Rule, mode: Mode, policy: CullingPolicy, pods: Pods, sittings: Sittings,
        known: bytes,
    ) -> None:  # fmt: skip
        self._due = DueNotebooks()
        tried = msgspec.structs.replace(reactor, decide=self._due.decide)
        self._replica = restored(tried, cluster, known)
        state = self._replica.states[NAME]
        assert isinstance(state, CullingState)
        self._view = state
        self._rule: Rule = rule
        self._world = NotebookWorld(state, policy, rule, pods, sittings)
        self._decided: list[Decided] = []
        govern(self._replica, NAME, mode, policy)

    @property
    def reads(self) -> tuple[str, ...]:
        """The types of the events read by the trial."""
        return self._replica.reads

    def apply(self, fact: Fact, event: Event) -> None:
        """Read the next recorded event."""
        if isinstance(fact, ClockTicked):
            for look in self._world.looks(event):
                self._fold(look)
            self._fold(event)
            if self._due.next_us <= event.time_us:
                self._decide(event)
        else:
            for seen in self._world.seen(fact, event):
                self._fold(seen)

    def end(self, until_us: int) -> CullingPlayed:
        """The findings, after the last event."""
        self._world.end(until_us)
        recorded, spans = self._world.record.decisions.values(), self._world.spans
        teams = {one.decision.key: one.team for one in self._decided}
        teams |= {span.uid: span.team for span in spans}
        return Played(tuple(recorded), tuple(self._decided), tuple(spans), teams, self._rule)

    def _fold(self, event: Event) -> None:
        self._replica.apply(event)
        self._due.changed(self._view, self._view.state.changes(event))
        if event.type == NotebookSampled.wire_type:
            self._due.looked(NotebookSampled.read(event).uid)

    def _decide(self, tick: Event) -> None:
        for decision in self._replica.decide(tick):
            pod = self._view.pod(decision.key)
            team = self._view.team(pod) if pod is not None else ""
            uid = self._world.recorded_uid(decision.key)
            self._decided.append(Decided(uid, team, decision))
            settled = EffectSettled(decision=decision.id, reactor=NAME, result="done").event(
                cluster=tick.cluster, key=decision.id, id=f"{SOURCE}/{decision.id}", source=SOURCE,
                time_us=tick.time_us + EFFECT_US,
            )  # fmt: skip
            for event in (decision_event(decision, tick.cluster), settled):
                self._replica.apply(msgspec.structs.replace(event, sequence=tick.sequence))
            if isinstance(decision, Cull):
                for event in self._world.stop(decision, tick):
                    self._fold(event)


class Lab:
    """Policies on the record, each under every rule. All of them read the same events once.

    ``known``: the reactors' state before the first event. A policy whose mode is off decides nothing.
    """

    def __init__(
        self,
        cluster: str,
        policies: Sequence[tuple[CullingPolicy, Mode]],
        *,
        earlier: Earlier,
        known: Replica | None = None,
        rules: Sequence[Rule] = RULES,
        held_at: HeldAt = unbound,
    ) -> None:
        self._pods, self._sittings = Pods(earlier, held_at), Sittings()
        knew = saved(known, reactor)
        self._trials = [
            [
                CullingTrial(cluster, rule, mode, policy, self._pods, self._sittings, knew)
                for rule in rules
            ]
            for policy, mode in policies
        ]
        self._last_us = 0

    @property
    def reads(self) -> tuple[str, ...]:
        """The types of the events read by the trials."""
        return self._trials[0][0].reads

    def play(self, events: Iterable[Event]) -> None:
        """Read these events of the cluster, in order. An unreadable event changes nothing, as it does live."""
        trials = [trial for of_policy in self._trials for trial in of_policy]
        for event in events:
            try:
                fact = read(event, VOCABULARY)
            except EnvelopeError:
                continue
            for trial in trials:
                with suppress(EnvelopeError, TimestampError):
                    trial.apply(fact, event)
            self._pods.apply(fact, event)
            self._sittings.apply(fact, event)
            self._last_us = max(self._last_us, event.time_us)

    def end(self) -> list[list[CullingPlayed]]:
        """The findings, by policy and rule."""
        return [[trial.end(self._last_us) for trial in trials] for trials in self._trials]
