"""The record of notebooks under a trial's stops: its recorded events still valid, and synthetic events for the others.

The key of a notebook is its uid on record. Under trial it has the same uid until it is stopped and started again, as another pod:

- *stopped*: stopped by the trial and running on record. Its events are left out until the first activity on record: then, by the
  rule, its owner has started it again.
- *kept*: stopped on record and not by the trial. Its end is left out, and probes without activity replace it, until the same owner
  has a new pod on record: from then on the notebook is in use again, without a stop.

Pure but for its own state.

Source: docs/lab.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from bus.clock import SECOND_US, format_stamp
from bus.envelope import Event
from bus.events.decisions import Decision, Target
from bus.events.notebooks import Evidence, NotebookSampled
from bus.events.pods import PodsListed, PodState, PodVanished
from bus.events.vocabulary import Fact
from bus.events.workloads import WorkloadVanished
from projections.cluster import covers
from projections.cluster.rows import ENDED, Pod
from reactors.culling.fusion import Sample, last_activity
from reactors.culling.policy import CullingPolicy, Limits
from reactors.culling.state import CullingState
from reactors.lab.culling.record import Record
from reactors.lab.pods import Pods
from reactors.lab.rules import Rule, Sittings
from reactors.lab.span import PodSpan
from reactors.lab.synthetic import event_at


class CulledSpan(PodSpan):
    """The span of a notebook. ``again_us``: the return of its owner; 0 = never."""

    again_us: int = 0


class _Under(msgspec.Struct, frozen=True):
    """A pod under trial other than the pod on record; ``started_us`` 0 = it was never stopped."""

    uid: str
    started_us: int


class _Kept(msgspec.Struct):
    """A notebook under trial after its pod on record was stopped."""

    span: CulledSpan
    image: str
    evidence: tuple[Evidence, ...]
    looked_us: int
    used_until_us: int


class NotebookWorld:
    """The notebooks under trial, and those on record. ``view``: the state read by the trial."""

    def __init__(
        self, view: CullingState, policy: CullingPolicy, rule: Rule, pods: Pods, sittings: Sittings
    ) -> None:
        self._view = view
        self._pods = pods
        self._rule = rule
        self._sittings = sittings
        self._period_us = policy.check_period_seconds * SECOND_US
        self._limits = Limits(
            skew_seconds=policy.skew_seconds, starting_grace_seconds=policy.starting_grace_seconds
        )
        #: All differing times, in the order of their starts.
        self.spans: list[CulledSpan] = []
        self.record = Record()
        #: By pod on record.
        self._under: dict[str, _Under] = {}
        self._stopped: dict[str, CulledSpan] = {}
        self._restarts: dict[str, int] = {}
        #: Pods without their recorded end.
        self._left: set[str] = set()
        #: By pod under trial.
        self._kept: dict[str, _Kept] = {}
        self._on_record: dict[str, str] = {}

    def seen(self, fact: Fact, event: Event) -> Iterator[Event]:
        """The events under trial in place of ``event`` on record."""
        if isinstance(fact, PodState):
            yield from self._pod(fact, event)
        elif isinstance(fact, NotebookSampled):
            yield from self._sampled(fact, event)
        elif isinstance(fact, PodsListed):
            yield self._listed(fact, event)
        elif not self.record.apply(fact):
            if isinstance(fact, WorkloadVanished):
                yield from self._ended_with(fact.uid, event)
            yield event

    def looks(self, tick: Event) -> Iterator[Event]:
        """The probes of notebooks running under trial only, as they would have come before a tick."""
        for uid, kept in self._kept.items():
            if tick.time_us - kept.looked_us < self._period_us:
                continue
            kept.looked_us = tick.time_us
            evidence = kept.evidence
            if tick.time_us < kept.used_until_us:
                evidence = tuple(msgspec.structs.replace(one, busy=True) for one in evidence)
            fact = NotebookSampled(uid=uid, image=kept.image, evidence=evidence)
            yield event_at(fact, uid, tick)

    def stop(self, decision: Decision, tick: Event) -> Iterator[Event]:
        """The trial stops a notebook."""
        uid = decision.key
        pod = self._view.pod(uid)
        kept = self._kept.pop(uid, None)
        if kept is not None:
            kept.span.until_us = tick.time_us
        elif pod is not None:
            recorded = self._on_record.get(uid, uid)
            span = self._span(pod, recorded, decision, tick.time_us, is_saved=True)
            self._stopped[recorded] = span
        if pod is not None:
            yield _gone(pod, tick)

    def end(self, until_us: int) -> None:
        """End the trial; later times are unknown."""
        for span in self.spans:
            span.until_us = span.until_us or max(until_us, span.from_us)

    def recorded_uid(self, uid: str) -> str:
        """The pod on record of a pod under trial."""
        return self._on_record.get(uid, uid)

    # events on record

    def _pod(self, fact: PodState, event: Event) -> Iterator[Event]:
        uid = fact.uid
        is_over = isinstance(fact, PodVanished) or fact.phase in ENDED
        if uid in self._stopped or uid in self._left:
            if is_over:
                self._over_on_record(uid, event.time_us)
            return
        under = self._under.get(uid)
        here = under.uid if under is not None else uid
        cull = self.record.stop_of(uid)
        if cull is not None and (is_over or fact.deletion is not None):
            if self._keep(here, uid, cull, event):
                if is_over:
                    self._forget(uid)
                return
        if self._kept and under is None and uid not in self._view.state.pods and not is_over:
            under = self._back(fact, event.time_us)
            if under is not None:
                yield self._used(under.uid, event)
        if under is None:
            yield event
        elif is_over or fact.deletion is not None:
            yield _as(fact, event, uid=under.uid)
        elif under.started_us:
            started = format_stamp(under.started_us)
            yield _as(fact, event, uid=under.uid, created=started, scheduled=started)
        if is_over:
            self._forget(uid)

    def _sampled(self, fact: NotebookSampled, event: Event) -> Iterator[Event]:
        uid = fact.uid
        span = self._stopped.get(uid)
        if span is not None:
            active_us = _active_us(fact, event, span.decision, self._limits)
            known = self._pods.of(uid)
            if active_us is None or known is None:
                return
            if self._rule == "never" and active_us > span.from_us:
                return
            # The last probe would have shown activity before the stop: then there is none.
            span.until_us = span.again_us = max(active_us, span.from_us)
            del self._stopped[uid]
            self._restarts[uid] = self._restarts.get(uid, 0) + 1
            under = _Under(f"{uid}~{self._restarts[uid]}", span.until_us)
            self._under[uid], self._on_record[under.uid] = under, uid
            started = format_stamp(under.started_us)
            yield _as(known, event, uid=under.uid, created=started, scheduled=started)
        yield _as(fact, event, uid=self._under[uid].uid) if uid in self._under else event

    def _listed(self, fact: PodsListed, event: Event) -> Event:
        if not (self._stopped or self._under or self._kept):
            return event
        present = set(fact.uids)
        for uid in [one for one in self._stopped if covers(fact, one) and one not in present]:
            self._over_on_record(uid, event.time_us)
        others = set(self._kept) | {one.uid for uid, one in self._under.items() if uid in present}
        uids = present - self._stopped.keys() - self._under.keys()
        uids |= {uid for uid in others if covers(fact, uid)}
        return _as(fact, event, uids=tuple(sorted(uids)))

    def _ended_with(self, top: str, event: Event) -> Iterator[Event]:
        """Notebooks running until their controller was deleted."""
        for uid in [u for u, one in self._kept.items() if one.span.decision.target.uid == top]:
            self._kept.pop(uid).span.until_us = event.time_us
            pod = self._view.pod(uid)
            if pod is not None:
                yield _gone(pod, event)

    # from one state to another

    def _keep(self, here: str, uid: str, cull: Decision, event: Event) -> bool:
        """Keep a notebook running after its stop on record; False if it is unknown, or the rule ends it."""
        pod, seen = self._view.pod(here), self._view.activity.get(here)
        if pod is None or seen is None or self._rule == "never":
            return False
        span = self._span(pod, uid, cull, min(cull.at_us, event.time_us), is_saved=False)
        evidence = [msgspec.structs.replace(one.ok, busy=False, connected=False, starting_since_us=None)
                    for _, one in seen.sources if one.ok is not None]  # fmt: skip
        used_us = self._sittings.median_us(pod.namespace) if self._rule == "median" else 0
        self._kept[here] = _Kept(
            span, self._view.images.get(here, ""), tuple(evidence), 0, span.from_us + used_us
        )
        self._left.add(uid)
        return True

    def _back(self, fact: PodState, at_us: int) -> _Under | None:
        """The running notebook whose owner has a new pod on record."""
        for uid, kept in self._kept.items():
            pod = self._view.pod(uid)
            if pod is None or not self._is_same(pod, fact, kept.span.decision.target):
                continue
            del self._kept[uid]
            kept.span.until_us = kept.span.again_us = max(at_us, kept.span.from_us)
            self._under[fact.uid], self._on_record[uid] = _Under(uid, 0), fact.uid
            return self._under[fact.uid]
        return None

    def _is_same(self, pod: Pod, fact: PodState, target: Target) -> bool:
        """Whether a new pod is another pod of a notebook."""
        if pod.namespace != fact.namespace:
            return False
        if fact.owner is None or pod.owner is None:
            return fact.owner is pod.owner and fact.name == pod.name
        top = self._view.state.top(fact.owner)
        return fact.owner.uid == pod.owner.uid or (top is not None and top.uid == target.uid)

    def _used(self, uid: str, event: Event) -> Event:
        """A probe showing a user at work."""
        seen = self._view.activity[uid]
        evidence = tuple(
            msgspec.structs.replace(one.ok, active_us=event.time_us)
            for _, one in seen.sources
            if one.ok is not None
        )
        fact = NotebookSampled(uid=uid, image=self._view.images.get(uid, ""), evidence=evidence)
        return event_at(fact, uid, event)

    def _over_on_record(self, uid: str, at_us: int) -> None:
        span = self._stopped.pop(uid, None)
        if span is None:
            return self._forget(uid)
        # A stop on record took effect at its decision: stops are compared by the times of their decisions.
        cull = self.record.stop_of(uid)
        span.until_us = max(cull.at_us if cull is not None else at_us, span.from_us)
        if span.until_us == span.from_us and cull is not None:
            # The record stopped it first: until the trial's own stop it ran under trial only.
            span.is_saved, span.from_us, span.until_us = False, cull.at_us, span.from_us
        self._forget(uid)

    def _forget(self, uid: str) -> None:
        self._left.discard(uid)
        self.record.forget(uid)
        for known in (self._under, self._restarts):
            known.pop(uid, None)

    def _span(
        self, pod: Pod, uid: str, decision: Decision, at_us: int, *, is_saved: bool
    ) -> CulledSpan:
        cpu_milli, gpu_milli = self._pods.amounts(uid, at_us)
        span = CulledSpan(
            uid,
            pod.namespace,
            self._view.team(pod),
            decision,
            is_saved,
            cpu_milli,
            gpu_milli,
            at_us,
        )
        self.spans.append(span)
        return span


def _as(fact: Fact, event: Event, **changed: Any) -> Event:
    """``event`` with another fact."""
    return event_at(msgspec.structs.replace(fact, **changed), event.key, event)


def _gone(pod: Pod, event: Event) -> Event:
    """A pod is gone, at the time of ``event``."""
    fact = PodVanished(
        uid=pod.uid, namespace=pod.namespace, name=pod.name, resource_version=pod.version
    )
    return event_at(fact, pod.uid, event)


def _active_us(
    fact: NotebookSampled, event: Event, decision: Decision, limits: Limits
) -> int | None:
    """The activity observed since the activity at the decision of a stop; None = none."""
    before_us = decision.numbers["last_activity_us"]
    samples = [
        Sample(
            source=one.source,
            observed_us=event.time_us,
            busy=one.busy,
            active_us=one.active_us,
            starting_since_us=one.starting_since_us,
        )
        for one in fact.evidence
        if one.outcome == "ok"
    ]
    active_us, _ = last_activity(samples, before_us, limits)
    return min(active_us, event.time_us) if active_us > before_us else None
