"""A policy of evictions under trial against the record: evicted pods, and the hours that are freed. Pure.

Source: docs/lab.md.
"""

from __future__ import annotations

from bus.clock import SECOND_US
from bus.events.decisions import Decision, Evict
from reactors.evictions.state import PREEMPTED
from reactors.lab.comparison import By, Change, Comparison, Group, Saved, compare, decision_changes
from reactors.lab.evictions.kept import KeptSpan
from reactors.lab.evictions.trial import EvictionsPlayed

#: From one tick to the next, and from an eviction to the end of its pod.
_LATE_S = 40


class EvictionChange(Change[Decision], frozen=True):
    """An eviction on record, under trial, or both."""

    @property
    def beneficiary(self) -> str:
        """The workload in need of the room; "" = none."""
        return self.decision.beneficiary if isinstance(self.decision, Evict) else ""


class EvictionGroup(Group[EvictionChange], frozen=True):
    """Evictions of one group."""

    @property
    def preempted(self) -> int:
        """Evictions of the trial for a waiting workload."""
        tried = [one.decision.reason for one in self.changes if one.tried_us is not None]
        return tried.count(PREEMPTED)


def outcome(played: EvictionsPlayed, *, by: By) -> Comparison[EvictionChange, EvictionGroup]:
    """The findings, put together."""

    def change(kind: str, one: Decision, recorded_us: int | None, tried_us: int | None) -> EvictionChange:  # fmt: skip
        team = played.teams.get(one.key, "")
        return EvictionChange(kind, one, one.target.namespace, team, recorded_us, tried_us)

    changes = decision_changes(played.recorded, played.decided, lambda one: one.key, change)
    return compare(changes, [[_saved(span, by) for span in played.spans]], by, EvictionGroup)


def _saved(span: KeptSpan, by: By) -> Saved:
    """Seconds of a span. A span surely without length is sure."""
    least, length, most = (
        until // SECOND_US - span.from_us // SECOND_US
        for until in (span.least_us, span.until_us, span.most_us)
    )
    late = _LATE_S if most else 0
    seconds = (least - late, length, most + late)
    if not span.is_saved:
        seconds = (-most - late, -length, late - least)
    return Saved(getattr(span, by), span.cpu_milli, span.gpu_milli, seconds)
