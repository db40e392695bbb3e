"""The spent and the left part of a quota's budget, and the time of its exhaustion.

A budget is an amount of unit·seconds in the ledger's measures: milli-core-seconds, milli-card-seconds, MiB-seconds.
``periods`` has its start and end, ``keys`` the spenders of each key, ``spend`` the spent amount as a function of
time, ``entries`` the credits, ``status`` the rest and the consequences of exhaustion, ``rows`` the spending of
quotas by the hour, and ``queries`` the state of a budget in the ledger.

Source: docs/quotas.md (cash); docs/architecture.md.
"""

from projections.budgets.periods import Every, Period, Schedule
from projections.budgets.spend import Spend, SpendPiece, committed, spend_of
from projections.budgets.status import (
    WARN_PERCENT,
    BudgetStatus,
    Exhaustion,
    ExhaustionRule,
    OnExhaustion,
    Phase,
    advance,
)

__all__ = [
    "WARN_PERCENT",
    "BudgetStatus",
    "Every",
    "Exhaustion",
    "ExhaustionRule",
    "OnExhaustion",
    "Period",
    "Phase",
    "Schedule",
    "Spend",
    "SpendPiece",
    "advance",
    "committed",
    "spend_of",
]
