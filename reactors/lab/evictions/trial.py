"""Evictions under another policy on recorded history, with the live reactor in the live state machine.

It decides in shadow: an evicted pod counts as gone until its quota is within its limit. Then it is back, if it still runs on
record. Evictions on record are left out: those pods run on.

Source: docs/lab.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import TypeAlias

import msgspec

from bus.envelope import Event
from bus.errors import EnvelopeError, TimestampError
from bus.events import VOCABULARY
from bus.events.clock import ClockTicked
from bus.events.decisions import Decision, EffectSettled
from bus.events.pods import PodsListed, PodState, PodVanished
from bus.events.policies import Mode, PolicyChanged
from bus.events.vocabulary import Fact, read
from bus.events.workloads import WorkloadVanished
from projections.cluster import Pod, covers
from projections.cluster.rows import ENDED
from reactors.engine.replica import Replica, decision_event
from reactors.evictions import NAME
from reactors.evictions.reactor import reactor
from reactors.evictions.settings import EvictionPolicy
from reactors.evictions.state import PREEMPTED, EvictionState
from reactors.lab.comparison import Played
from reactors.lab.evictions.kept import KeptPods, KeptSpan
from reactors.lab.pods import Earlier, HeldAt, Pods, unbound
from reactors.lab.synthetic import event_at, govern, restored, saved

EvictionsPlayed: TypeAlias = Played[Decision, KeptSpan]


class EvictionTrial:
    """A replica under trial. ``known``: the reactors' state before the first event.

    ``earlier``: a pod's last observation before it.
    """

    def __init__(
        self, cluster: str, mode: Mode, policy: EvictionPolicy, earlier: Earlier, known: Replica | None = None,
        held_at: HeldAt = unbound,
    ) -> None:  # fmt: skip
        self._replica = restored(reactor, cluster, saved(known, reactor))
        state = self._replica.states[NAME]
        assert isinstance(state, EvictionState)
        self._view, self._pods, self._kept = state, Pods(earlier, held_at), KeptPods()
        #: Decisions on record without an undo, by pod.
        self._evicted: dict[str, Decision] = {}
        self._recorded: dict[str, Decision] = {}
        self._decided: list[Decision] = []
        self._spans: list[KeptSpan] = []
        #: Pods gone under trial and running on record, by uid.
        self._open: dict[str, KeptSpan] = {}
        #: Pods back under trial, until their end on record.
        self._back: dict[str, list[KeptSpan]] = {}
        #: Pods with a node on record.
        self._seen = {uid for uid, pod in self._replica.cluster_state.pods.items() if pod.node}
        self._teams: dict[str, str] = {}
        self._quiet: Event | None = None
        self._last_us = 0
        govern(self._replica, NAME, mode, policy)

    @property
    def reads(self) -> tuple[str, ...]:
        """The types of the events read by the trial."""
        return self._replica.reads

    def play(self, events: Iterable[Event]) -> None:
        """Read these events of the cluster, in order. An unreadable event changes nothing, as it does live."""
        for event in events:
            with suppress(EnvelopeError, TimestampError):
                fact = read(event, VOCABULARY)
                self._take(fact, event)
                self._pods.apply(fact, event)
            self._last_us = event.time_us

    def end(self) -> EvictionsPlayed:
        """The findings, after the last event."""
        for uid in [*self._kept]:
            self._kept.end(uid, self._last_us)
        for span in self._spans:
            last_us = max(self._last_us, span.from_us)
            span.until_us = span.until_us or last_us
            span.least_us, span.most_us = span.least_us or span.until_us, span.most_us or last_us
        recorded = tuple(self._recorded.values())
        return Played(recorded, tuple(self._decided), tuple(self._spans), self._teams)

    def _take(self, fact: Fact, event: Event) -> None:
        if isinstance(fact, ClockTicked):
            self._tick(event)
        elif not self._is_own(fact):
            self._wake()
            for seen in self._seen_as(fact, event):
                self._replica.apply(seen)

    # the record

    def _is_own(self, fact: Fact) -> bool:
        """Whether a fact belongs to the recorded evictions, as the trial makes those decisions anew."""
        if isinstance(fact, Decision) and fact.reactor == NAME:
            if not fact.is_shadow:
                self._recorded[fact.id] = self._evicted[fact.key] = fact
                self._name(fact.key)
            return True
        if isinstance(fact, EffectSettled) and fact.decision in self._recorded:
            if fact.result != "done":
                decision = self._recorded.pop(fact.decision)
                self._evicted.pop(decision.key, None)
            return True
        return isinstance(fact, PolicyChanged) and fact.reactor == NAME

    def _seen_as(self, fact: Fact, event: Event) -> Iterator[Event]:
        """The events under trial in place of ``event`` on record."""
        if isinstance(fact, PodState):
            yield from self._pod(fact, event)
            return
        if isinstance(fact, WorkloadVanished):
            yield from map(_gone(event), self._kept.gone_with(fact.uid, event.time_us))
        if isinstance(fact, PodsListed):
            event = self._listed(fact, event)
        yield event

    def _listed(self, fact: PodsListed, event: Event) -> Event:
        """A complete list, with the pods kept running; pods missing in it on record have ended there."""
        present = set(fact.uids)
        for uid in [*self._open, *self._back, *self._evicted]:
            if covers(fact, uid) and uid not in present:
                self._ended(uid, event.time_us)
        missing = {uid for uid in self._kept if covers(fact, uid)} - present
        if not missing:
            return event
        uids = tuple(sorted(present | missing))
        return event_at(msgspec.structs.replace(fact, uids=uids), event.key, event)

    def _pod(self, fact: PodState, event: Event) -> Iterator[Event]:
        uid, at_us = fact.uid, event.time_us
        is_over = isinstance(fact, PodVanished) or fact.phase in ENDED
        if is_over or fact.deletion is not None:
            self._ended(uid, at_us)
        if uid in self._kept:
            return
        if is_over:
            self._seen.discard(uid)
            if uid not in self._evicted:
                self._kept.ran(fact, at_us)
        elif uid not in self._seen and fact.node:
            self._seen.add(uid)
            yield from map(_gone(event), self._kept.replaced(fact, at_us))
        yield event

    def _ended(self, uid: str, at_us: int) -> None:
        """A pod ends on record, or is about to; an evicted pod runs on if the trial did not evict it."""
        for span in self._back.pop(uid, ()):
            span.most_us = max(at_us, span.until_us)
        evicted, pod = self._evicted.get(uid), self._view.pod(uid)
        if uid in self._open:
            # Evictions are compared by the times of their decisions.
            span = self._open.pop(uid)
            span.until_us = max(evicted.at_us if evicted is not None else at_us, span.from_us)
            span.most_us = span.until_us
        elif evicted is not None and pod is not None and uid not in self._kept:
            from_us = min(evicted.at_us, at_us)
            self._kept.keep(pod, self._span(pod, evicted, from_us, is_saved=False))

    # decisions

    def _wake(self) -> None:
        """Count the skipped ticks up to a new event."""
        if self._quiet is not None:
            tick, self._quiet = self._quiet, None
            self._replica.apply(tick)

    def _tick(self, event: Event) -> None:
        # Without events since a tick with nothing due, nothing is due.
        over = self._kept.over(event.time_us)
        if self._quiet is not None and not over:
            # A gap between ticks stops all decisions.
            self._replica.interlocks.apply(read(event, VOCABULARY), event)
            self._quiet = event
            return
        self._wake()
        for pod in over:
            self._replica.apply(_gone(event)(pod))
        self._replica.apply(event)
        self._come_back(event.time_us)
        drafts = self._replica.decide(event)
        for decision in drafts:
            self._evict(decision, event)
        if not drafts and self._is_quiet(event.time_us):
            self._quiet = event

    def _is_quiet(self, at_us: int) -> bool:
        view = self._view
        if view.spent or view.shadowed or view.yielding or self._replica.withheld:
            return False
        return all(one.within_us == at_us for one in view.watches.values())

    def _evict(self, decision: Decision, event: Event) -> None:
        self._decided.append(decision)
        made = decision_event(decision, event.cluster)
        self._replica.apply(msgspec.structs.replace(made, sequence=event.sequence))
        uid, pod = decision.key, self._view.pod(decision.key)
        if pod is None:
            return
        self._name(uid)
        if uid in self._kept:
            self._kept.end(uid, event.time_us)
            self._replica.apply(_gone(event)(pod))
        else:
            self._open[uid] = self._span(pod, decision, event.time_us, is_saved=True)

    def _come_back(self, at_us: int) -> None:
        """Bring back the evicted pods whose quota is within its limit."""
        for uid, span in [*self._open.items()]:
            is_preempted = span.decision.reason == PREEMPTED
            gone = self._view.yielding if is_preempted else self._view.shadowed
            if uid not in gone:
                del self._open[uid]
                span.until_us = max(at_us, span.from_us)
                self._back.setdefault(uid, []).append(span)

    def _span(self, pod: Pod, decision: Decision, at_us: int, *, is_saved: bool) -> KeptSpan:
        cpu_milli, gpu_milli = self._pods.amounts(pod.uid, at_us)
        self._name(pod.uid)
        # A pod with a controller may be created again at once.
        least_us = 0 if is_saved and pod.owner is None else at_us
        span = KeptSpan(
            pod.uid, pod.namespace, self._teams.get(pod.uid, ""), decision, is_saved, cpu_milli, gpu_milli, at_us,
            least_us=least_us,
        )  # fmt: skip
        self._spans.append(span)
        return span

    def _name(self, uid: str) -> None:
        pod = self._replica.cluster_state.pods.get(uid)
        if pod is not None:
            namespace = self._replica.cluster_state.namespaces.get(pod.namespace)
            self._teams[uid] = pod.team or (namespace.team if namespace is not None else "")


def _gone(event: Event) -> Callable[[Pod], Event]:
    """The event for a pod's end, at the place of ``event``."""

    def gone(pod: Pod) -> Event:
        fact = PodVanished(
            uid=pod.uid, namespace=pod.namespace, name=pod.name, resource_version=f"{pod.version}~"
        )
        return event_at(fact, pod.uid, event)

    return gone
