"""Another policy of evictions against the record: evicted pods, hours as intervals, affected groups. Pure.

Source: docs/lab.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

from bus.clock import SECOND_US
from bus.events.decisions import Decision, Evict
from reactors.evictions.state import PREEMPTED
from reactors.lab.amounts import SAME_US, Amount, Kind
from reactors.lab.evictions.kept import Span
from reactors.lab.evictions.trial import Played

#: From one tick to the next, and from an eviction to the end of its pod.
_LATE_S = 40


class Change(msgspec.Struct, frozen=True):
    """An eviction on record, under trial, or both. Times in microseconds UTC; None = it was not decided there."""

    kind: Kind
    decision: Decision
    team: str
    recorded_us: int | None
    tried_us: int | None

    @property
    def beneficiary(self) -> str:
        """The workload that room is made for; "" = nobody."""
        return self.decision.beneficiary if isinstance(self.decision, Evict) else ""


class Group(msgspec.Struct, frozen=True):
    """A policy under trial, for a namespace, a team, or all. ``preempted``: those of ``tried`` that make room for a workload."""

    name: str
    recorded: int
    tried: int
    preempted: int
    added: int
    removed: int
    moved: int
    #: Milli-core- and milli-GPU-seconds.
    cpu_milli_s: Amount
    gpu_milli_s: Amount


class Outcome(msgspec.Struct, frozen=True):
    """A policy under trial. Changes by time; groups by name; ``total`` of all of them."""

    changes: tuple[Change, ...]
    groups: tuple[Group, ...]
    total: Group


def outcome(played: Played, *, by: Literal["namespace", "team"]) -> Outcome:
    """What was made of the history, put together."""
    changes = tuple(_changes(played))

    def group(name: str, of: Callable[[str, str], bool]) -> Group:
        mine = [one for one in changes if of(one.decision.target.namespace, one.team)]
        spans = [span for span in played.spans if of(span.namespace, span.team)]
        kinds = [one.kind for one in mine]
        return Group(
            name=name,
            recorded=sum(one.recorded_us is not None for one in mine),
            tried=sum(one.tried_us is not None for one in mine),
            preempted=sum(
                one.tried_us is not None and one.decision.reason == PREEMPTED for one in mine
            ),
            added=kinds.count("added"),
            removed=kinds.count("removed"),
            moved=kinds.count("moved"),
            cpu_milli_s=_amount(spans, lambda span: span.cpu_milli),
            gpu_milli_s=_amount(spans, lambda span: span.gpu_milli),
        )

    is_team = by == "team"
    names = {one.team if is_team else one.decision.target.namespace for one in changes}
    groups = tuple(
        group(name, lambda namespace, team, name=name: name == (team if is_team else namespace))  # type: ignore[misc]
        for name in sorted(names)
    )
    return Outcome(changes, groups, group("", lambda namespace, team: True))


def _changes(played: Played) -> list[Change]:
    """Evictions on record beside those of the trial, of each pod in order."""
    recorded: dict[str, list[Decision]] = {}
    for one in played.recorded:
        recorded.setdefault(one.key, []).append(one)
    found = []
    for one in played.decided:
        mine, team = recorded.get(one.key, []), played.teams.get(one.key, "")
        twin = mine.pop(0) if mine else None
        kind: Kind = "added"
        if twin is not None:
            kind = "same" if abs(twin.at_us - one.at_us) <= SAME_US else "moved"
        found.append(Change(kind, one, team, twin.at_us if twin is not None else None, one.at_us))
    for left in recorded.values():
        found += [
            Change("removed", one, played.teams.get(one.key, ""), one.at_us, None) for one in left
        ]
    found.sort(key=lambda one: (one.tried_us or one.recorded_us or 0, one.decision.key))
    return found


def _amount(spans: list[Span], milli: Callable[[Span], int]) -> Amount:
    """The interval. What is sure to have no length is sure."""
    low = likely = high = 0
    for span in spans:
        least, length, most = (
            until // SECOND_US - span.from_us // SECOND_US
            for until in (span.least_us, span.until_us, span.most_us)
        )
        late = _LATE_S if most else 0
        saved = (least - late, length, most + late)
        if not span.is_saved:
            saved = (-most - late, -length, late - least)
        low += saved[0] * milli(span)
        likely += saved[1] * milli(span)
        high += saved[2] * milli(span)
    return Amount(low, likely, high)
