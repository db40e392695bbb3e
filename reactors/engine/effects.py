"""Decisions that are not carried out yet: folded from decisions and outcomes. Pure.

An effector has no durable consumer: its acks would not survive a crash (docs/reliability.md: 1,958 of
2,000 acked messages came back), and the history has the same information. A decision without an outcome is outstanding. If
the process ends between an act and its outcome, the act is tried again and finds its own mark on the object.
So a decision has at most one effect, and preconditions on uid and version protect other objects.

Source: docs/architecture.md; docs/reliability.md.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from bus.envelope import Event
from bus.events.decisions import Decision, EffectSettled, Result
from bus.events.vocabulary import Fact
from projections.engine.parts import Part, SavedDecision
from reactors.engine.policies import Current


class SavedEffects(msgspec.Struct):
    """The outstanding decisions in a snapshot."""

    outstanding: dict[str, SavedDecision]


class Effects(Part):
    """Every outstanding decision, by id, the oldest first."""

    Saved = SavedEffects

    reads: ClassVar[tuple[type[Fact], ...]] = (Decision, EffectSettled)

    def __init__(self) -> None:
        self.outstanding: dict[str, Decision] = {}

    def apply(self, fact: Fact, event: Event) -> None:
        """Fold one event. An outcome without a decision changes nothing."""
        if isinstance(fact, Decision):
            if not fact.is_shadow:
                self.outstanding[fact.id] = fact
        elif isinstance(fact, EffectSettled):
            self.outstanding.pop(fact.decision, None)


#: The reason for a decision about a deleted object. It may have been done without an outcome.
GONE = "gone"

#: The longest delay of an effector's clock behind its decision.
SKEW_US = 60_000_000


def hindrance(
    decision: Decision, current: Current | None, *, hold: str, overtaken: str, now_us: int
) -> tuple[Result, str] | None:
    """(result, message) for a decision that must not be carried out any more, or has lost its object; None = it may.

    ``hold``: the reason to hold all actions without a person's
    request; ``overtaken``: the reason why this decision is now wrong.
    """
    if now_us > decision.expires_us:
        return "stale", "expired"
    if now_us < decision.at_us - SKEW_US:
        return "stale", "clock_went_back"
    if overtaken == GONE:
        return "gone", "not_found"
    if overtaken:
        return "stale", overtaken
    if decision.is_asked:
        return None
    if current is None or current.mode != "on":
        return "shadow", "mode_changed"
    if decision.policy != current.digest:
        return "stale", "policy_changed"
    if hold:
        return "stale", hold
    return None
