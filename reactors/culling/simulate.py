"""What a policy would have done with recorded evidence: culls, hours saved, and culls that somebody would have noticed.

The verdicts are :func:`~reactors.culling.fusion.judge`'s own, at every look at which they could differ from "keep", so what
is simulated is what would be decided.

- **Gaps.** A span without a readable look that is longer than evidence lasts is a gap, and what happened in it is unknown.
  So idleness starts anew at the first look after it, an open warning is void, and a gap is never counted as saved.
- **Saved** is from a cull to the next activity on record, or to the notebook's last look: less than what a real stop saves,
  since nobody would have kept the machine for that activity.
- **Touched again** within the given time after its cull means that a user would have found it gone: a false cull. The
  simulation goes on from there as from a restart.

Source: docs/culling.md. Times in microseconds UTC.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from bus.clock import SECOND_US
from bus.events.notebooks import NotebookSampled
from reactors.culling.fusion import Sample, Warned, are_enough, judge, last_activity
from reactors.culling.policy import Limits

RECORDED = "recorded"


class Look(msgspec.Struct, frozen=True, gc=False):
    """One readable look at a notebook: when, and the newest activity it told of; None = of none."""

    uid: str
    at_us: int
    active_us: int | None


class Cull(msgspec.Struct, frozen=True):
    """One notebook that would have been stopped. ``again_us`` None = nothing happened there any more."""

    uid: str
    at_us: int
    reason: str
    idle_since_us: int
    saved_us: int = 0
    again_us: int | None = None


class Simulation(msgspec.Struct, frozen=True):
    """What would have been. ``unknown_us``: the length of all gaps together."""

    culls: tuple[Cull, ...]
    notebooks: int
    looks: int
    gaps: int
    unknown_us: int

    @property
    def saved_us(self) -> int:
        """Time that stopped notebooks would not have run."""
        return sum(cull.saved_us for cull in self.culls)

    def touched_within(self, seconds: int) -> int:
        """Culls after which somebody came back within this time."""
        return sum(
            cull.again_us is not None and cull.again_us - cull.at_us <= seconds * SECOND_US
            for cull in self.culls
        )


class Run:
    """One notebook while the recording is played. ``cull``: how it was stopped, while it stays so."""

    __slots__ = ("active_us", "cull", "judge_us", "last_us", "saved_us", "since_us", "warned")

    def __init__(self, at_us: int) -> None:
        self.since_us = self.last_us = self.judge_us = at_us
        self.active_us = at_us
        self.warned: Warned | None = None
        self.cull: Cull | None = None
        self.saved_us = 0

    def restart(self, at_us: int) -> None:
        """Nothing before ``at_us`` counts any more."""
        self.since_us = self.judge_us = self.active_us = at_us
        self.warned = None


def simulate(looks: Iterable[Look], limits: Limits) -> Simulation:
    """The culls under ``limits``, by time and uid. ``looks`` must be in order of time for each notebook."""
    fresh_us = limits.fresh_seconds * SECOND_US
    runs: dict[str, Run] = {}
    culls: list[Cull] = []
    count = gaps = unknown_us = 0
    for look in looks:
        count += 1
        run = runs.get(look.uid)
        if run is None:
            run = runs[look.uid] = Run(look.at_us)
        span_us = look.at_us - run.last_us
        if span_us > fresh_us:
            gaps, unknown_us = gaps + 1, unknown_us + span_us
            if run.cull is None:
                run.restart(look.at_us)
        if look.active_us is not None and look.active_us > run.active_us:
            run.active_us = look.active_us
        if run.cull is not None:
            watched(run, look.at_us, 0 if span_us > fresh_us else span_us, culls)
        elif look.at_us >= run.judge_us:
            _judged(run, look, limits)
        run.last_us = look.at_us
    culls += [ended(run.cull, run.saved_us) for run in runs.values() if run.cull is not None]
    culls.sort(key=lambda cull: (cull.at_us, cull.uid))
    return Simulation(tuple(culls), len(runs), count, gaps, unknown_us)


def look_of(fact: NotebookSampled, at_us: int, limits: Limits) -> Look | None:
    """A recorded fact as a look; None when no source was readable that may decide."""
    samples = [
        Sample(
            source=evidence.source,
            observed_us=at_us,
            busy=evidence.busy,
            active_us=evidence.active_us,
            starting_since_us=evidence.starting_since_us,
        )
        for evidence in fact.evidence
        if evidence.outcome == "ok"
    ]
    sources = {sample.source for sample in samples}
    asked = {evidence.source for evidence in fact.evidence}
    if not are_enough(sources, asked, limits):
        return None
    active_us, source = last_activity(samples, 0, limits)
    return Look(fact.uid, at_us, active_us if source in sources else None)


def _judged(run: Run, look: Look, limits: Limits) -> None:
    """Take the verdict at this look, and remember from when on another one is possible."""
    verdict = judge(
        [Sample(source=RECORDED, observed_us=look.at_us, active_us=run.active_us)],
        running_since_us=run.since_us,
        warned=run.warned,
        limits=msgspec.structs.replace(
            limits, required_source=None, supporting_sources=frozenset()
        ),
        now_us=look.at_us,
    )
    # Age makes a notebook due whatever it does; otherwise nothing changes before the limit.
    waits = verdict.reason == "active" and limits.max_age_seconds is None
    run.judge_us = verdict.idle_limit_us if waits else look.at_us
    if verdict.decision == "warn":
        run.warned = Warned(look.at_us, "idle" if verdict.reason == "idle" else "max_age")
        if limits.warning_seconds == 0:
            _judged(run, look, limits)
    elif verdict.decision == "cancel_warning":
        run.warned = None
    elif verdict.decision == "cull":
        run.cull = Cull(look.uid, look.at_us, verdict.reason, verdict.last_activity_us)


def watched(run: Run, at_us: int, span_us: int, culls: list[Cull]) -> None:
    """A stopped notebook at another look: time saved since the one before, up to the activity that ends it."""
    if run.cull is None:
        return
    if run.active_us <= run.cull.at_us:
        run.saved_us += span_us
        return
    # A look tells of what was before it: what lies between was not saved.
    run.saved_us += max(0, span_us - max(0, at_us - run.active_us))
    culls.append(ended(run.cull, run.saved_us, run.active_us))
    run.cull, run.saved_us = None, 0
    run.restart(run.active_us)


def ended(cull: Cull, saved_us: int, again_us: int | None = None) -> Cull:
    """The cull with what it saved, and when somebody came back."""
    return msgspec.structs.replace(cull, saved_us=saved_us, again_us=again_us)
