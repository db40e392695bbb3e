"""Simulates cullers on recorded probes: culls, hours saved, and culls that a user would have noticed.

Of Bursar's own rules :mod:`reactors.lab` says it, of those of others :mod:`reactors.culling.alike`.

- **Gaps.** A span without a readable look that is longer than evidence lasts is a gap, and what happened in it is unknown: it
  is never counted as saved.
- **Saved** is from a cull to the next activity on record, or to the notebook's last look: less than what a real stop saves,
  since nobody would have kept the machine for that activity.
- **Touched again** within the given time after its cull means that a user would have found it gone: a false cull. The
  simulation goes on from there as from a restart.

Source: docs/culling.md. Times in microseconds UTC.
"""

from __future__ import annotations

import msgspec

from bus.clock import SECOND_US
from bus.events.notebooks import NotebookSampled
from reactors.culling.fusion import Sample, Warned, are_enough, last_activity
from reactors.culling.policy import Limits


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
    """What would have been. ``unknown_us``: the length of all gaps together; None of rules that know what they do not know."""

    culls: tuple[Cull, ...]
    notebooks: int
    looks: int
    gaps: int | None
    unknown_us: int | None

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

    __slots__ = ("active_us", "cull", "last_us", "saved_us", "since_us", "warned")

    def __init__(self, at_us: int) -> None:
        self.since_us = self.last_us = self.active_us = at_us
        self.warned: Warned | None = None
        self.cull: Cull | None = None
        self.saved_us = 0

    def restart(self, at_us: int) -> None:
        """Nothing before ``at_us`` counts any more."""
        self.since_us = self.active_us = at_us
        self.warned = None


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
