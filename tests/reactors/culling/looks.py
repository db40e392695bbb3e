"""Culls by looks alone, counted in the simplest way: what the lab says of recorded history is compared with it.

A span without a readable look that is longer than evidence lasts is a gap: idleness starts anew at the first look after it, an open
warning is void, and nothing in it is saved.
"""

import msgspec

from bus.clock import SECOND_US
from reactors.culling.fusion import Sample, Warned, evaluate
from reactors.culling.simulate import Cull, Run, Simulation, ended, watched

RECORDED = "recorded"


class JudgedRun(Run):
    """A run, and from when on another verdict is possible."""

    __slots__ = ("judge_us",)

    def __init__(self, at_us):
        super().__init__(at_us)
        self.judge_us = at_us

    def restart(self, at_us):
        super().restart(at_us)
        self.judge_us = at_us


def simulate(looks, limits):
    """The culls under ``limits``, by time and uid. ``looks`` must be in order of time for each notebook."""
    fresh_us = limits.fresh_seconds * SECOND_US
    runs: dict[str, JudgedRun] = {}
    culls: list[Cull] = []
    count = gaps = unknown_us = 0
    for look in looks:
        count += 1
        run = runs.get(look.uid)
        if run is None:
            run = runs[look.uid] = JudgedRun(look.at_us)
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


def _judged(run, look, limits):
    """Take the verdict at this look, and remember from when on another one is possible."""
    verdict = evaluate(
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
