"""A culling policy under trial against the record: stops, warnings and false culls. Pure.

Source: docs/lab.md.
"""

from __future__ import annotations

from collections.abc import Sequence

from bus.clock import SECOND_US
from bus.events.decisions import Cull, Decision
from reactors.culling.policy import CullingPolicy
from reactors.lab.comparison import By, Change, Comparison, Group, compare, decision_changes, saved
from reactors.lab.culling.trial import CullingPlayed
from reactors.lab.rules import RULES

#: From one tick to the next, and from a stop to the end of its pod.
_LATE_US = 40 * SECOND_US


class CullChange(Change[Decision], frozen=True):
    """A stop or a warning. ``uid``: its pod on record; ``again_us``: the return of its user after the trial's stop."""

    uid: str
    again_us: int | None
    #: The user returned within the given time.
    is_false: bool

    @property
    def is_stop(self) -> bool:
        """Whether a notebook is stopped."""
        return self.decision.wire_type == Cull.wire_type


class CullGroup(Group[CullChange], frozen=True):
    """Stops of one group."""

    @property
    def false_culls(self) -> int:
        """Stops of the trial followed by a return of the user within the given time."""
        return sum(one.is_false for one in self.changes)


def unsure_us(policy: CullingPolicy) -> int:
    """The uncertainty of any differing time: activity is known as of the next probe."""
    return policy.check_period_seconds * SECOND_US + _LATE_US


def outcome(
    played: Sequence[CullingPlayed], *, by: By, within_us: int, unsure_us: int
) -> Comparison[CullChange, CullGroup]:
    """The findings of all rules, put together. The first rule must be the likely one.

    ``within_us``: a notebook used again so soon was a false cull. ``unsure_us``: the uncertainty of any differing time.
    """
    likely = played[0]
    assert likely.rule == RULES[0]
    decided = {one.decision.id: one for one in likely.decided}
    again = {span.decision.id: span.again_us for span in likely.spans if span.is_saved}

    def change(kind: str, one: Decision, recorded_us: int | None, tried_us: int | None) -> CullChange:  # fmt: skip
        uid, team, again_us, is_false = one.key, likely.teams.get(one.key, ""), 0, False
        if tried_us is not None:
            uid, team = decided[one.id].uid, decided[one.id].team
            again_us = again.get(one.id, 0)
            is_false = bool(again_us) and tried_us < again_us <= tried_us + within_us
        where = one.target.namespace
        return CullChange(kind, one, where, team, recorded_us, tried_us, uid, again_us or None, is_false)  # fmt: skip

    tried = [one.decision for one in likely.decided]
    changes = decision_changes(likely.recorded, tried, _subject, change, _overlap)
    spans = [[saved(span, by, unsure_us // SECOND_US) for span in one.spans] for one in played]
    return compare(changes, spans, by, CullGroup, lambda one: one.is_stop)


def _subject(decision: Decision) -> tuple[str, str, str, str]:
    """The notebook as the target of the stop, and the verb."""
    target = decision.target
    return target.kind, target.namespace, target.name, decision.wire_type


def _overlap(one: Decision, other: Decision) -> bool:
    """Whether two decisions are about one idle time."""
    since, since_other = (d.numbers.get("last_activity_us", d.at_us) for d in (one, other))
    return since <= other.at_us and since_other <= one.at_us
