"""Bursar's own rule: activity is the newest evidence of any source, and unknown is never idle.

1. Only readable samples of this run count, from its start on; activity never moves backwards within a run.
2. A busy kernel is active at its observation, however old its own stamp. A starting kernel is active for a
   grace; after it, only the begin of its start counts. A stamp too far ahead is clamped to its observation.
3. The verdict is unknown in four cases: no fresh readable sample; samples of supporting sources only (these only protect);
   none of the required source; or an unreadable primary source. Then nothing is warned or stopped, and it is reported.
4. Exempt, kept until a date, too young: kept.
5. At the limit (``>=``) it is warned, and stopped when the warning is over and fresh evidence still shows it idle. While a
   browser is connected, the longer limit for presence counts.
6. Activity after an idle warning voids it. A warning about age is void only when age is no reason any more, and
   neither kind replaces the other.
7. A snooze moves the stop, by no more than its cap in all. In quiet hours nothing is warned or stopped.

Source: docs/culling.md; docs/reliability.md. Times are microseconds UTC since 1970.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Literal

import msgspec

from bus.clock import SECOND_US
from reactors.culling.policy import Limits

RUN_STARTED = "running_since"

Outcome = Literal["ok", "unreachable", "refused", "malformed"]
Reason = Literal["idle", "max_age"]


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of one source about a notebook at one moment. Only ``ok`` samples carry the rest."""

    source: str
    observed_us: int
    outcome: Outcome = "ok"
    busy: bool = False
    #: The source's own stamp of the last activity; None = it names none.
    active_us: int | None = None
    #: The begin of a kernel's start, if it was never connected to.
    starting_since_us: int | None = None
    #: A browser held a connection open.
    connected: bool = False


class Warned(msgspec.Struct, frozen=True):
    """An active warning. ``snoozed_until_us`` None = no request for more time."""

    at_us: int
    reason: Reason
    snoozed_until_us: int | None = None


class Verdict(msgspec.Struct, frozen=True):
    """The next step for a notebook, the stable reason token, and the numbers behind it."""

    decision: Literal["keep", "warn", "cancel_warning", "cull", "unknown"]
    reason: str
    last_activity_us: int
    #: The source with the newest activity, or ``running_since``.
    last_source: str
    #: The time at which the notebook is idle by its limit, without further activity.
    idle_limit_us: int


def evaluate(
    evidence: Sequence[Sample],
    *,
    running_since_us: int,
    warned: Warned | None,
    limits: Limits,
    now_us: int,
) -> Verdict:
    """The verdict on one notebook at ``now_us``; the same for every order of the evidence.

    Of two sources with equal stamps, the alphabetically first is named.
    """
    known = [s for s in evidence if s.outcome == "ok" and s.observed_us >= running_since_us]
    active_us, source = last_activity(known, running_since_us, limits)
    recent = [s for s in evidence if now_us - s.observed_us <= limits.fresh_seconds * SECOND_US]
    fresh = [s for s in recent if s.outcome == "ok" and s.observed_us >= running_since_us]
    span = limits.presence_seconds if any(s.connected for s in fresh) else limits.idle_seconds
    idle_us = active_us + span * SECOND_US

    due = _due(running_since_us, idle_us, limits, now_us)
    if not are_enough({s.source for s in fresh}, {s.source for s in recent}, limits):
        return Verdict("unknown", "no_fresh_evidence", active_us, source, idle_us)
    decision, reason = _step(due, active_us, running_since_us, warned, limits, now_us)
    return Verdict(decision, reason, active_us, source, idle_us)


def last_activity(
    known: Sequence[Sample], running_since_us: int, limits: Limits
) -> tuple[int, str]:
    """The newest activity in readable samples of this run, and its source; without one, the run's start."""
    newest = max(
        ((_active_us(sample, limits), sample.source) for sample in known),
        key=lambda found: found[0],
        default=(running_since_us, RUN_STARTED),
    )
    if newest[0] <= running_since_us:
        return running_since_us, RUN_STARTED
    return newest[0], min(s.source for s in known if _active_us(s, limits) == newest[0])


_NEVER = -(2**62)


def _active_us(sample: Sample, limits: Limits) -> int:
    """The newest activity in this sample."""
    observed = sample.observed_us
    if sample.busy:
        return observed
    active = _NEVER if sample.active_us is None else sample.active_us
    if active > observed + limits.skew_seconds * SECOND_US:
        active = observed
    if sample.starting_since_us is not None:
        since = min(sample.starting_since_us, observed)
        in_grace = observed - since < limits.starting_grace_seconds * SECOND_US
        active = max(active, observed if in_grace else since)
    return active


def _due(running_since_us: int, idle_us: int, limits: Limits, now_us: int) -> list[Reason]:
    """The current reasons for a stop, the one about activity first."""
    due: list[Reason] = ["idle"] if now_us >= idle_us else []
    age_us = now_us - running_since_us
    if limits.max_age_seconds is not None and age_us >= limits.max_age_seconds * SECOND_US:
        due.append("max_age")
    return due


def _step(
    due: Sequence[Reason],
    active_us: int,
    running_since_us: int,
    warned: Warned | None,
    limits: Limits,
    now_us: int,
) -> tuple[Literal["keep", "warn", "cancel_warning", "cull"], str]:
    if limits.exempt:
        return "keep", "exempt"
    if limits.keep_until_us is not None and now_us < limits.keep_until_us:
        return "keep", "keep_until"
    if now_us - running_since_us < limits.min_running_seconds * SECOND_US:
        return "keep", "min_running"
    if not due:
        return ("cancel_warning" if warned else "keep"), "active"
    if any(window.holds(now_us) for window in limits.quiet):
        return "keep", "quiet"
    if warned is None or not _stands(warned, due, active_us):
        return "warn", due[0]
    if now_us < warned.at_us + limits.warning_seconds * SECOND_US:
        return "keep", "warned"
    if now_us < _snoozed_until(warned, limits):
        return "keep", "snoozed"
    return "cull", warned.reason


def are_enough(sources: Set[str], asked: Set[str], limits: Limits) -> bool:
    """Whether these readable sources suffice for a decision. ``asked``: all tried sources, these included."""
    if limits.required_source is not None:
        return limits.required_source in sources
    return asked & limits.primary_sources <= sources and bool(sources - limits.supporting_sources)


def _stands(warned: Warned, due: Sequence[Reason], active_us: int) -> bool:
    """Whether a warning still has its reason: without activity since, or because of age."""
    return warned.reason in due and (warned.reason == "max_age" or active_us <= warned.at_us)


def _snoozed_until(warned: Warned, limits: Limits) -> int:
    if warned.snoozed_until_us is None:
        return warned.at_us
    over = limits.warning_seconds + limits.snooze_cap_seconds
    return min(warned.snoozed_until_us, warned.at_us + over * SECOND_US)
