"""How much of a quota's budget is spent, what is left, and when is it used up?

A budget is an amount of unit·seconds in the ledger's measures: milli-core-seconds, milli-card-seconds, MiB-seconds.
``periods`` says from when to when it lasts, ``keys`` who spends on which key, ``spend`` how much as a function of time,
``entries`` what was credited, ``standing`` what is left and what follows from exhaustion, ``rows`` what quotas spent by the
hour, and ``queries`` how a budget stands in the ledger.

Source: docs/quotas.md (cash); docs/architecture.md.
"""

from projections.budgets.periods import Every, Period, Schedule
from projections.budgets.spend import Piece, Spend, committed, spend_of
from projections.budgets.status import (
    WARN_PERCENT,
    BudgetStatus,
    Exhaustion,
    OnExhaustion,
    Phase,
    Rule,
    advance,
)

__all__ = [
    "WARN_PERCENT",
    "BudgetStatus",
    "Every",
    "Exhaustion",
    "OnExhaustion",
    "Period",
    "Phase",
    "Piece",
    "Rule",
    "Schedule",
    "Spend",
    "advance",
    "committed",
    "spend_of",
]
