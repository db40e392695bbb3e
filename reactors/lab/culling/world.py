"""The record of notebooks as it would be had others been stopped: which of its events hold, and which come instead.

A notebook is known by its uid on record. Under trial it has the same uid until it was stopped and started again, which makes
another pod of it:

- *stopped*: the trial stopped it, and on record it runs on. Its events are left out until there is activity on record: then,
  by the rule, its owner has started it again.
- *kept*: the record stopped it, and the trial did not. Its end is left out, and looks that see no activity come in its stead,
  until the same owner has a new pod on record: then somebody is back, in the notebook that was never stopped.

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
    """That of a notebook. ``again_us``: when its owner was back; 0 = never."""

    again_us: int = 0


class _Under(msgspec.Struct, frozen=True):
    """A pod under trial that is another one than on record; ``started_us`` 0 = it was never stopped."""

    uid: str
    started_us: int


class _Kept(msgspec.Struct):
    """A notebook under trial whose pod on record was stopped."""

    span: CulledSpan
    image: str
    evidence: tuple[Evidence, ...]
    looked_us: int
    used_until_us: int


class NotebookWorld:
    """The notebooks under trial beside those on record. ``view``: what the trial knows."""

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
        #: All times that differ, in the order in which they began.
        self.spans: list[CulledSpan] = []
        self.record = Record()
        #: By pod on record.
        self._under: dict[str, _Under] = {}
        self._stopped: dict[str, CulledSpan] = {}
        self._restarts: dict[str, int] = {}
        #: Pods whose end on record is left out.
        self._left: set[str] = set()
        #: By pod under trial.
        self._kept: dict[str, _Kept] = {}
        self._on_record: dict[str, str] = {}

    def seen(self, fact: Fact, event: Event) -> Iterator[Event]:
        """What is seen under trial where ``event`` is on record."""
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
        """The looks at notebooks that run on under trial alone, as they would have come before a tick."""
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
        """Nothing is known of what comes after this."""
        for span in self.spans:
            span.until_us = span.until_us or max(until_us, span.from_us)

    def recorded_uid(self, uid: str) -> str:
        """The pod on record of a pod under trial."""
        return self._on_record.get(uid, uid)

    # what was seen on record

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
            # Activity from before the stop is what the last look would have seen: then there is none.
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
        """Notebooks that run on until somebody deleted what controls them."""
        for uid in [u for u, one in self._kept.items() if one.span.decision.target.uid == top]:
            self._kept.pop(uid).span.until_us = event.time_us
            pod = self._view.pod(uid)
            if pod is not None:
                yield _gone(pod, event)

    # from one state to another

    def _keep(self, here: str, uid: str, cull: Decision, event: Event) -> bool:
        """Let a notebook run on that was stopped on record; False where it is not known, or the rule has it ended."""
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
        """The notebook that runs on, whose owner has a new pod on record."""
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
        """Whether a new pod is another one of a notebook."""
        if pod.namespace != fact.namespace:
            return False
        if fact.owner is None or pod.owner is None:
            return fact.owner is pod.owner and fact.name == pod.name
        top = self._view.state.top(fact.owner)
        return fact.owner.uid == pod.owner.uid or (top is not None and top.uid == target.uid)

    def _used(self, uid: str, event: Event) -> Event:
        """A look that sees somebody at work."""
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
        # What the record stopped ended by its decision: both stops are compared by when they were decided.
        cull = self.record.stop_of(uid)
        span.until_us = max(cull.at_us if cull is not None else at_us, span.from_us)
        if span.until_us == span.from_us and cull is not None:
            # The record was first: until the trial stopped it, too, it ran there alone.
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
    """``event`` with another body."""
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
    """The activity that a look sees since the one that a stop was decided by; None = none."""
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
