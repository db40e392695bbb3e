"""A policy under trial against the record: decisions, hours as intervals, affected groups, and false culls. Pure.

Source: docs/lab.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

from bus.clock import SECOND_US
from bus.events.decisions import Cull, Decision
from reactors.culling.policy import CullingPolicy
from reactors.lab.amounts import SAME_US, Amount, Kind, amount
from reactors.lab.culling.trial import Decided, Played
from reactors.lab.rules import RULES

#: From one tick to the next, and from a stop to the end of its pod.
_LATE_US = 40 * SECOND_US

#: A notebook by what is stopped: kind, namespace and name.
Notebook = tuple[str, str, str]


class Change(msgspec.Struct, frozen=True):
    """A decision on record, under trial, or both. Times in microseconds UTC; None = it was not made there."""

    kind: Kind
    verb: str
    notebook: Notebook
    uid: str
    team: str
    reason: str
    recorded_us: int | None
    tried_us: int | None
    #: When somebody was back whom the trial had stopped; None = nobody on record.
    again_us: int | None = None

    @property
    def is_stop(self) -> bool:
        """Whether a notebook is stopped."""
        return self.verb == Cull.wire_type


class Group(msgspec.Struct, frozen=True):
    """A policy under trial, for a namespace, a team, or all."""

    name: str
    recorded: int
    tried: int
    added: int
    removed: int
    moved: int
    #: Stops of the trial after which somebody was back within the given time.
    false_culls: int
    #: Milli-core- and milli-GPU-seconds.
    cpu_milli_s: Amount
    gpu_milli_s: Amount


class Outcome(msgspec.Struct, frozen=True):
    """A policy under trial. Changes by time; groups by name; ``total`` of all of them."""

    changes: tuple[Change, ...]
    groups: tuple[Group, ...]
    total: Group


def unsure_us(policy: CullingPolicy) -> int:
    """So much any time that differs may be longer or shorter: activity is known as of the next look."""
    return policy.check_period_seconds * SECOND_US + _LATE_US


def outcome(
    played: Sequence[Played], *, by: Literal["namespace", "team"], within_us: int, unsure_us: int
) -> Outcome:
    """What the rules made of the history, put together. The first rule must be the likely one.

    ``within_us``: used again so soon is a false cull. ``unsure_us``: so much any time that differs may be longer or shorter.
    """
    likely = played[0]
    assert likely.rule == RULES[0]
    teams = {one.decision.key: one.team for one in likely.decided}
    teams |= {span.uid: span.team for span in likely.spans}
    changes = tuple(_changes(likely, teams))

    def is_false(change: Change) -> bool:
        at_us, again_us = change.tried_us, change.again_us
        return again_us is not None and at_us is not None and at_us < again_us <= at_us + within_us

    def group(name: str, of: Callable[[str, str], bool]) -> Group:
        stops = [one for one in changes if one.is_stop and of(one.notebook[1], one.team)]
        spans = [[span for span in one.spans if of(span.namespace, span.team)] for one in played]
        added, removed, moved = (
            sum(one.kind == kind for one in stops) for kind in ("added", "removed", "moved")
        )
        return Group(
            name=name,
            recorded=sum(one.recorded_us is not None for one in stops),
            tried=sum(one.tried_us is not None for one in stops),
            added=added,
            removed=removed,
            moved=moved,
            false_culls=sum(map(is_false, stops)),
            cpu_milli_s=amount(spans, lambda span: span.cpu_milli, unsure_us),
            gpu_milli_s=amount(spans, lambda span: span.gpu_milli, unsure_us),
        )

    names = {one.notebook[1] if by == "namespace" else one.team for one in changes}
    groups = tuple(
        group(name, lambda namespace, team, name=name: name == (namespace if by == "namespace" else team))  # type: ignore[misc]
        for name in sorted(names)
    )  # fmt: skip
    return Outcome(changes, groups, group("", lambda namespace, team: True))


def _changes(played: Played, teams: dict[str, str]) -> list[Change]:
    """The decisions on record beside those of the trial. Two of one notebook are the same one if they are about one idle time."""
    again = {span.decision.id: span.again_us or None for span in played.spans if span.is_saved}
    open_: dict[tuple[str, Notebook], list[Decision]] = {}
    for decision in played.recorded:
        open_.setdefault(_of(decision), []).append(decision)
    found = []
    for one in played.decided:
        mine = open_.get(_of(one.decision), [])
        twin = next((other for other in mine if _overlap(one.decision, other)), None)
        if twin is not None:
            mine.remove(twin)
        found.append(_change(one, twin, again.get(one.decision.id)))
    for left in open_.values():
        found += [_removed(decision, teams.get(decision.key, "")) for decision in left]
    found.sort(key=lambda one: (one.tried_us or one.recorded_us or 0, one.notebook, one.verb))
    return found


def _of(decision: Decision) -> tuple[str, Notebook]:
    target = decision.target
    return decision.wire_type, (target.kind, target.namespace, target.name)


def _overlap(one: Decision, other: Decision) -> bool:
    """Whether two decisions are about one idle time."""
    since, since_other = (d.numbers.get("last_activity_us", d.at_us) for d in (one, other))
    return since <= other.at_us and since_other <= one.at_us


def _change(one: Decided, twin: Decision | None, again_us: int | None) -> Change:
    decision = one.decision
    kind: Kind = "added"
    if twin is not None:
        kind = "same" if abs(twin.at_us - decision.at_us) <= SAME_US else "moved"
    verb, notebook = _of(decision)
    recorded_us = twin.at_us if twin is not None else None
    return Change(
        kind, verb, notebook, one.uid, one.team, decision.reason, recorded_us, decision.at_us, again_us
    )  # fmt: skip


def _removed(decision: Decision, team: str) -> Change:
    verb, notebook = _of(decision)
    return Change(
        "removed", verb, notebook, decision.key, team, decision.reason, decision.at_us, None
    )
