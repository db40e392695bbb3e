"""Simulates cullers on recorded probes: culls, hours saved, and culls that a user would have noticed.

:mod:`reactors.lab` simulates Bursar's own rules, :mod:`reactors.culling.alike` those of other cullers.

- **Gaps.** A span without a readable probe is a gap, if it is longer than evidence is valid. Activity in it is unknown, so it
  is never counted as saved.
- **Saved** is the time from a cull to the next recorded activity, or to the notebook's last probe. A real stop saves more:
  without the activity, its machine would stay free.
- **Touched again** within the given time after its cull: a user would have missed the notebook. This is a false cull. The
  simulation goes on from there as from a restart.

Source: docs/culling.md. Times in microseconds UTC.
"""

from __future__ import annotations

import msgspec

from bus.clock import SECOND_US
from bus.events.notebooks import NotebookSampled
from reactors.culling.fusion import Sample, Warned, are_enough, last_activity
from reactors.culling.policy import Limits


class NotebookLook(msgspec.Struct, frozen=True, gc=False):
    """One readable look at a notebook: when, and the newest activity it told of; None = of none."""

    uid: str
    at_us: int
    active_us: int | None


class Cull(msgspec.Struct, frozen=True):
    """One simulated stop of a notebook. ``again_us`` None = it had no activity after it."""

    uid: str
    at_us: int
    reason: str
    idle_since_us: int
    saved_us: int = 0
    again_us: int | None = None


class Simulation(msgspec.Struct, frozen=True):
    """The result of a simulation. ``unknown_us``: the length of all gaps; None for rules that handle gaps themselves."""

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
        """Culls followed by a user's return within this time."""
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
        """Ignore everything before ``at_us``."""
        self.since_us = self.active_us = at_us
        self.warned = None


def look_of(fact: NotebookSampled, at_us: int, limits: Limits) -> NotebookLook | None:
    """A recorded fact as a look; None without a readable deciding source."""
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
    return NotebookLook(fact.uid, at_us, active_us if source in sources else None)


def watched(run: Run, at_us: int, span_us: int, culls: list[Cull]) -> None:
    """A stopped notebook at another probe: time saved since the one before, up to the activity that ends it."""
    if run.cull is None:
        return
    if run.active_us <= run.cull.at_us:
        run.saved_us += span_us
        return
    # A probe reports the time before it: the span between the two was not saved.
    run.saved_us += max(0, span_us - max(0, at_us - run.active_us))
    culls.append(ended(run.cull, run.saved_us, run.active_us))
    run.cull, run.saved_us = None, 0
    run.restart(run.active_us)


def ended(cull: Cull, saved_us: int, again_us: int | None = None) -> Cull:
    """The cull with its saved time, and the time of the user's return."""
    return msgspec.structs.replace(cull, saved_us=saved_us, again_us=again_us)
