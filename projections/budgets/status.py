"""The status of one key of a quota: the rest, the time of its exhaustion, and the consequences.

The phases are Ok, Warned (:data:`WARN_PERCENT` of the limit is spent), Exhausted, and GraceOver (a grace after
exhaustion has passed). They are evaluated at moments, but begin at exact seconds: the one at which the amount was
reached, or the limit fell below the spending. A lowered limit therefore exhausts at once, and never counts an
earlier grace. A credit takes exhaustion back; a new period begins as Ok.

Source: docs/quotas.md (refused when used >= hard);
docs/wrong-input.md.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from bus.events.quotas import Budget
from projections.budgets.periods import Period
from projections.budgets.spend import Spend

#: Warning threshold as a share of the limit.
WARN_PERCENT = 80


class OnExhaustion(StrEnum):
    """The consequence of exhaustion: only a warning, no new work, or also the end of running work after a grace."""

    WARN = "Warn"
    DENY_NEW = "DenyNew"
    GRACE_THEN_EVICT = "GraceThenEvict"


class ExhaustionRule(msgspec.Struct, frozen=True):
    """A quota's rule for exhaustion. ``grace_s`` counts for GraceThenEvict alone."""

    on_exhaustion: OnExhaustion = OnExhaustion.DENY_NEW
    grace_s: int = 0

    @classmethod
    def of(cls, budget: Budget) -> ExhaustionRule:
        """The rule in a quota's object."""
        return cls(OnExhaustion(budget.exhaustion), budget.grace_seconds)


class BudgetStatus(msgspec.Struct, frozen=True):
    """One key of a quota in one period. ``hard``, ``credits`` and ``committed`` in unit·seconds.

    A ``hard`` of 0 is no budget: exhausted from the period's first second.
    """

    period: Period
    hard: int
    spend: Spend
    credits: int = 0
    committed: int = 0

    @property
    def limit(self) -> int:
        """The spendable amount of the period: the budget and its entries; nothing outside of all windows."""
        return self.hard + self.credits if self.period.is_granted else 0

    def spent(self, second: int) -> int:
        """The spending until ``second``, or until the period's end."""
        end_s = self.period.end_s
        return self.spend.at(second if end_s is None else min(second, end_s))

    def left(self, second: int) -> int:
        """The rest; below 0 after overspending."""
        return self.limit - self.spent(second)

    def exhausts_s(self, from_s: int) -> int | None:
        """The first whole second from ``from_s`` on without a rest, at the present rate.

        None where the period ends before, or nothing is spent any more.
        """
        reached_s = self.spend.reached_s(self.limit, from_s)
        end_s = self.period.end_s
        if reached_s is not None and end_s is not None and reached_s >= end_s:
            return None
        return reached_s


class Phase(StrEnum):
    """The phase of a budget."""

    OK = "Ok"
    WARNED = "Warned"
    EXHAUSTED = "Exhausted"
    GRACE_OVER = "GraceOver"


class Exhaustion(msgspec.Struct, frozen=True):
    """The evaluation of one key of a quota, last at ``at_s``: the start of its warning, and of its exhaustion
    (None: not reached).
    """

    period: Period
    at_s: int
    warned_s: int | None = None
    exhausted_s: int | None = None

    def phase(self, rule: ExhaustionRule) -> Phase:
        """The phase at ``at_s``."""
        if self.exhausted_s is not None:
            over_s = self.grace_over_s(rule)
            is_over = over_s is not None and self.at_s >= over_s
            return Phase.GRACE_OVER if is_over else Phase.EXHAUSTED
        return Phase.OK if self.warned_s is None else Phase.WARNED

    def grace_over_s(self, rule: ExhaustionRule) -> int | None:
        """When running work may be ended; None where it may not be, or nothing is exhausted."""
        if self.exhausted_s is None or rule.on_exhaustion is not OnExhaustion.GRACE_THEN_EVICT:
            return None
        return self.exhausted_s + rule.grace_s


def advance(before: Exhaustion | None, standing: BudgetStatus, at_s: int) -> Exhaustion:
    """The judgement at ``at_s``, after ``before``. Call it before and after each change, and on ticks.

    Between two calls ``standing`` does not change, so the seconds it gives are exact however rare ticks are.
    """
    known = before if before is not None and before.period == standing.period else None
    # A key without an evaluation was not exhausted before: its exhaustion was unknown.
    floor_s = at_s if before is None else max(before.at_s, standing.period.start_s)
    warning = -(-standing.limit * WARN_PERCENT // 100)
    return Exhaustion(
        standing.period,
        at_s,
        _since(known.warned_s if known else None, standing, warning, floor_s, at_s),
        _since(known.exhausted_s if known else None, standing, standing.limit, floor_s, at_s),
    )


def _since(
    known: int | None, standing: BudgetStatus, amount: int, floor_s: int, at_s: int
) -> int | None:
    """Since when ``amount`` is spent: as known, else the second it was reached, not before the last judgement."""
    if standing.spent(at_s) < amount:
        return None
    reached_s = standing.spend.reached_s(amount, floor_s) if known is None else known
    return at_s if reached_s is None else min(reached_s, at_s)
