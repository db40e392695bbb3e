"""The budgets reactor: its parts, as the machine runs them. It has no policy: each quota's object has its own rule."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reactors.budgets import NAME
from reactors.budgets.decide import decide
from reactors.budgets.metrics import figures
from reactors.budgets.settings import BudgetSettings
from reactors.budgets.state import BudgetState, LedgerRead
from reactors.engine.contract import Reactor

if TYPE_CHECKING:
    from reactors.engine.adapters import Adapters, EffectorTable


def effects(adapters: Adapters) -> EffectorTable:
    """The effects of budgets."""
    # A question to the reactors needs no effects, and should not pay for the import.
    from reactors.budgets.effects import effects

    return effects(adapters)


reactor = Reactor(
    name=NAME,
    version=1,
    policy=None,
    settings=BudgetSettings,
    activity="keeping budgets",
    state=BudgetState,
    triggers=(LedgerRead,),
    decide=decide,
    effects=effects,
    metrics=figures,
    expects="budget.judged",
)
