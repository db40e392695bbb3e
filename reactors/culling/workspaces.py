"""The rules of Kubeflow Notebooks 2.0: the times of probes, the meaning of a script's output, and pauses.

Kept beside Bursar's own rules for clusters with such rule lists. It pauses only right after a successful probe;
times are Unix milliseconds as on its status object, and 0 is unknown.

Source: docs/culling.md (kubeflow/notebooks, branch notebooks-v2 at 8b610577, workspaces/controller/internal).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from bus.clock import parse_stamp
from bus.errors import PermanentError, TimestampError
from bus.notebooks.go_json import go_struct


class SelectorError(PermanentError):
    """A label selector is not valid.

    Refuse the rule list: which notebooks it means is unknown, so nothing is paused.
    """


class Requirement(msgspec.Struct, frozen=True):
    """One expression of a label selector: In, NotIn, Exists or DoesNotExist."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def is_met(self, labels: Mapping[str, str]) -> bool:
        """Whether ``labels`` satisfy it; NotIn also where the label is absent. Raises SelectorError."""
        if self.operator in ("In", "NotIn"):
            if not self.values:
                raise SelectorError(key=self.key, reason="no values")
            inside = labels.get(self.key) in self.values
            return inside is (self.operator == "In")
        if self.operator in ("Exists", "DoesNotExist"):
            if self.values:
                raise SelectorError(key=self.key, reason="values of an existence test")
            return (self.key in labels) is (self.operator == "Exists")
        raise SelectorError(key=self.key, operator=self.operator, reason="no such operator")


class Selector(msgspec.Struct, frozen=True):
    """A label selector; all parts must hold, and an empty one selects everything."""

    labels: dict[str, str] = {}
    expressions: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether ``labels`` are selected. Raises SelectorError, also where another part says no."""
        met = [requirement.is_met(labels) for requirement in self.expressions]
        return all(met) and all(labels.get(key) == value for key, value in self.labels.items())


class Match(msgspec.Struct, frozen=True):
    """The notebooks of a rule; both selectors must match, a missing one always does."""

    #: Over the labels of the namespace.
    namespace: Selector | None = None
    #: Over the labels of the workspace's size option.
    size: Selector | None = None


class PauseRule(msgspec.Struct, frozen=True):
    """One activity rule. ``pause`` None = the rule is about something else, False = an exemption."""

    seconds_since_active: int
    min_running_seconds: int | None = None
    pause: bool | None = None
    match: Match | None = None


class PauseDecision(msgspec.Struct, frozen=True):
    """``eligible_after_ms`` None = no rule says to pause, 0 = the activity is unknown."""

    pause: bool
    eligible_after_ms: int | None = None


def pause_decision(
    rules: Sequence[PauseRule],
    *,
    namespace_labels: Mapping[str, str],
    size_labels: Mapping[str, str],
    last_activity_ms: int,
    last_running_ms: int,
    now_ms: int,
    fresh_probe: bool,
) -> PauseDecision:
    """The result of the first matching rule about pausing. ``fresh_probe``: one succeeded in this very pass.

    Raises SelectorError for an invalid selector of a reached rule. Later rules are not evaluated.
    """
    rule = _first(rules, namespace_labels, size_labels)
    if rule is None or not rule.pause:
        return PauseDecision(False)
    if last_activity_ms <= 0:
        return PauseDecision(False, 0)
    eligible_after = last_activity_ms + rule.seconds_since_active * 1_000
    minimum_ms = (rule.min_running_seconds or 0) * 1_000
    ran_enough = minimum_ms <= 0 or 0 < last_running_ms <= now_ms - minimum_ms
    return PauseDecision(fresh_probe and now_ms >= eligible_after and ran_enough, eligible_after)


def _first(
    rules: Sequence[PauseRule],
    namespace_labels: Mapping[str, str],
    size_labels: Mapping[str, str],
) -> PauseRule | None:
    for rule in rules:
        if rule.pause is None:
            continue
        match = rule.match or Match()
        if (match.namespace is None or match.namespace.matches(namespace_labels)) and (
            match.size is None or match.size.matches(size_labels)
        ):
            return rule
    return None


def probe_due_after_ms(
    *,
    now_ms: int,
    last_start_ms: int | None,
    succeeded: bool,
    min_interval_ms: int,
    probe_interval_ms: int,
) -> int:
    """Milliseconds until the next probe, 0 = due: the long interval after a success, else the short one.

    A start in the future (a clock stepped back) waits the interval and the gap. No or no positive start: due.
    """
    if not last_start_ms or last_start_ms < 0:
        return 0
    interval_ms = probe_interval_ms if succeeded else min_interval_ms
    return max(0, last_start_ms + interval_ms - now_ms)


class ScriptActivity(msgspec.Struct, frozen=True):
    """The result of a probe script: active when it ended, nothing new, active ``at`` a time, or unreadable."""

    result: Literal["active", "unchanged", "at", "failure"]
    last_activity_ms: int | None = None


_FIELDS = {"has_activity": bool, "last_activity": str}


def script_activity(output: bytes) -> ScriptActivity:
    """The meaning of a probe script's JSON; nothing printed and an empty object mean active.

    ``has_activity`` wins over ``last_activity``, which is then not even read.
    """
    if not output.strip():
        return ScriptActivity("active")
    try:
        fields = go_struct(msgspec.json.decode(output), _FIELDS)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ScriptActivity("failure")
    if fields is None:
        return ScriptActivity("failure")
    if "has_activity" in fields:
        return ScriptActivity("active" if fields["has_activity"] else "unchanged")
    if "last_activity" not in fields:
        return ScriptActivity("active")
    try:
        return ScriptActivity("at", parse_stamp(fields["last_activity"]) // 1_000)
    except TimestampError:
        return ScriptActivity("failure")
