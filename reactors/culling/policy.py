"""The culling policy of an operator, and the limits of one notebook by it.

The first rule matching a notebook overrides the policy's own numbers. The notebook's annotations then override the idle limit
within the policy's bounds, or exempt it. An unreadable annotation is ignored, and named in ``Limits.ignored`` for its owner.

Source: docs/culling.md (defaults; requests of other cullers' users); docs/reliability.md.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, time, timedelta
from fnmatch import fnmatchcase
from typing import Annotated, Literal
from zoneinfo import ZoneInfo

import msgspec
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from reactors.engine.settings import ReactorPolicy

CULL_IDLE_AFTER = "bursar.io/cull-idle-after"
DO_NOT_CULL = "bursar.io/do-not-cull"

#: A thousand years: longer than anything is kept, and short enough for its end to be a date.
LONGEST_SECONDS = 31_557_600_000
Span = Annotated[int, Field(ge=0, le=LONGEST_SECONDS)]
Positive = Annotated[int, Field(gt=0, le=LONGEST_SECONDS)]

Weekday = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
WEEKDAYS: tuple[Weekday, ...] = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DURATION = re.compile(
    r"(?:([0-9]{1,4})d)?(?:([0-9]{1,5})h)?(?:([0-9]{1,6})m)?(?:([0-9]{1,8})s)?", re.ASCII
)


class QuietWindow(BaseModel):
    """Hours of the day in which nothing is warned or stopped. Without ``days``: every day."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    #: IANA name, so that summer time is kept: `Europe/Berlin`.
    zone: ZoneInfo = ZoneInfo("UTC")
    start: time
    #: Not in the window any more. Up to ``start`` = it passes midnight; the same = a whole day.
    end: time
    #: The days on which it begins; the part after midnight belongs to the day before.
    days: frozenset[Weekday] = frozenset(WEEKDAYS)

    def holds(self, now_us: int) -> bool:
        """Whether an instant lies in the window; one outside the local calendar does."""
        try:
            local = (_EPOCH + timedelta(microseconds=now_us)).astimezone(self.zone)
        except OverflowError:
            return True
        clock, day = local.time(), local.weekday()
        if self.start < self.end:
            return self.start <= clock < self.end and WEEKDAYS[day] in self.days
        return (clock >= self.start and WEEKDAYS[day] in self.days) or (
            clock < self.end and WEEKDAYS[day - 1] in self.days
        )


class CullingRule(BaseModel):
    """Overrides for the notebooks that fit every pattern given here (shell patterns, `*` and `?`); None = as the policy says."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    idle_seconds: Span | None = None
    presence_seconds: Span | None = None
    warning_seconds: Span | None = None
    min_running_seconds: Span | None = None
    max_age_seconds: Positive | None = None
    exempt: bool | None = None
    #: Nothing is stopped before this; for a deadline that an operator granted.
    keep_until: AwareDatetime | None = None
    required_source: str | None = None
    quiet: tuple[QuietWindow, ...] | None = None
    namespace: str = "*"
    team: str = "*"
    image: str = "*"

    def fits(self, subject: NotebookSubject) -> bool:
        """Whether the rule matches this notebook."""
        return (
            fnmatchcase(subject.namespace, self.namespace)
            and fnmatchcase(subject.team, self.team)
            and fnmatchcase(subject.image, self.image)
        )


class KubeflowRules(BaseModel):
    """Kubeflow's culler decides, as its environment variables have it; minutes, negative ones included."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    #: CULL_IDLE_TIME.
    idle_minutes: int
    #: IDLENESS_CHECK_PERIOD.
    period_minutes: int


class CullingPolicy(ReactorPolicy):
    """When notebooks are stopped. All spans in seconds; a change holds from the next tick on, for every notebook."""

    #: Between two probes of one notebook. Evidence older than two periods is none: five minutes by default.
    check_period_seconds: Positive = 150
    #: Without activity for this long, a notebook is idle. An hour: the shortest that users do not fight.
    idle_seconds: Span = 3_600
    #: The same while a browser is connected: a tab is open, which does not say that anybody sits there.
    presence_seconds: Span = 8 * 3_600
    #: From the warning to the stop. 0 = at the next tick after it.
    warning_seconds: Span = 900
    #: Longest delay that snoozing adds to one warning, however often it is asked for.
    snooze_cap_seconds: Span = 4 * 3_600
    #: No notebook is stopped sooner after its start.
    min_running_seconds: Span = 0
    #: Older ones are stopped although active. None = age is no reason.
    max_age_seconds: Positive | None = None
    #: A stamp further ahead of its observation is clamped to it: the server's clock is wrong, or it lies.
    skew_seconds: Span = 120
    #: A kernel that is starting counts as active for this long; one never connected to stays so for ever.
    starting_grace_seconds: Span = 600
    #: Evidence that may protect a notebook and never stops one: a quiet GPU says nothing of a server that refuses, and a
    #: server without terminals may have kernels.
    supporting_sources: frozenset[str] = frozenset(
        {"gpu", "jupyter_terminals", "kubeflow_kernels", "pod_cpu"}
    )
    #: Evidence that must be readable where it is asked for: no traffic with a closed browser is how a long job looks.
    primary_sources: frozenset[str] = frozenset({"code_server", "jupyter_kernels"})
    #: The evidence that must be readable for a stop. None = one readable source that is not supporting is enough.
    required_source: str | None = None
    #: Hours of the day in which nothing is warned or stopped.
    quiet: tuple[QuietWindow, ...] = ()
    #: The first that fits a notebook counts.
    rules: tuple[CullingRule, ...] = ()
    #: Whether a notebook's owner may exempt it by the annotation ``bursar.io/do-not-cull: "true"``.
    owners_may_exempt: bool = True
    #: What the annotation ``bursar.io/cull-idle-after`` may ask for; beyond it, the bound holds.
    shortest_idle_seconds: Span = 300
    longest_idle_seconds: Span = 7 * 86_400
    #: Not by the rules above, but by those of Kubeflow's culler, with their faults; Notebooks only. None = by those above.
    kubeflow: KubeflowRules | None = None


class NotebookSubject(msgspec.Struct, frozen=True):
    """A notebook in the form for rules. ``team`` and ``image`` "" = unknown, matched by `*` only."""

    namespace: str
    team: str = ""
    image: str = ""
    annotations: dict[str, str] = {}


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of one notebook. Spans in seconds; see :class:`CullingPolicy` for their meaning."""

    idle_seconds: int = 3_600
    presence_seconds: int = 8 * 3_600
    warning_seconds: int = 900
    snooze_cap_seconds: int = 4 * 3_600
    min_running_seconds: int = 0
    max_age_seconds: int | None = None
    fresh_seconds: int = 300
    skew_seconds: int = 120
    starting_grace_seconds: int = 600
    required_source: str | None = None
    supporting_sources: frozenset[str] = frozenset()
    primary_sources: frozenset[str] = frozenset()
    exempt: bool = False
    keep_until_us: int | None = None
    quiet: tuple[QuietWindow, ...] = ()
    #: Unusable annotations of the notebook.
    ignored: tuple[str, ...] = ()


def limits_of(policy: CullingPolicy, subject: NotebookSubject) -> Limits:
    """The limits of one notebook: the policy's, the first matching rule's, the notebook's own; later ones win."""
    rule = next((rule for rule in policy.rules if rule.fits(subject)), CullingRule())
    asked_seconds, exempt, ignored = _asked(policy, subject.annotations)
    limits = {
        name: getattr(policy, name) if getattr(rule, name) is None else getattr(rule, name)
        for name in _OVERRIDDEN
    }
    if asked_seconds is not None:
        limits["idle_seconds"] = asked_seconds
    return Limits(
        **limits,
        fresh_seconds=2 * policy.check_period_seconds,
        snooze_cap_seconds=policy.snooze_cap_seconds,
        skew_seconds=policy.skew_seconds,
        starting_grace_seconds=policy.starting_grace_seconds,
        supporting_sources=policy.supporting_sources,
        primary_sources=policy.primary_sources,
        exempt=exempt or bool(rule.exempt),
        keep_until_us=None if rule.keep_until is None else _us(rule.keep_until),
        ignored=ignored,
    )


_OVERRIDDEN = tuple(name for name in CullingRule.model_fields if name in CullingPolicy.model_fields)


def _asked(
    policy: CullingPolicy, annotations: Mapping[str, str]
) -> tuple[int | None, bool, tuple[str, ...]]:
    """The annotations' requests: idle seconds within the bounds, exemption, and the ignored ones."""
    ignored = []
    idle = annotations.get(CULL_IDLE_AFTER)
    seconds = None if idle is None else parse_duration(idle)
    if idle is not None and seconds is None:
        ignored.append(CULL_IDLE_AFTER)
    if seconds is not None:
        seconds = min(max(seconds, policy.shortest_idle_seconds), policy.longest_idle_seconds)
    wish = annotations.get(DO_NOT_CULL, "false")
    exempt = wish == "true" and policy.owners_may_exempt
    if wish != "false" and not exempt:
        ignored.append(DO_NOT_CULL)
    return seconds, exempt, tuple(ignored)


def parse_duration(text: str) -> int | None:
    """Seconds of `90m`, `1h30m`, `2d`; None for anything else."""
    parts = _DURATION.fullmatch(text)
    if parts is None or not text:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in parts.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def _us(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(microseconds=1)
