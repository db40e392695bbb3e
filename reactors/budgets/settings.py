"""Settings of budgets. Source: ``docs/admission.md``."""

from __future__ import annotations

from collections.abc import Mapping

from bus.events.policies import Mode
from reactors.engine.settings import WarnSettings


class BudgetSettings(WarnSettings):
    """Who is told when a budget runs out: at 80 % of it, when it is spent, and when the grace after that is over."""

    def wanted(self, environment: Mapping[str, str]) -> None:
        """Budgets have no mode: they are kept wherever quotas are."""
        return None

    def announcement(self, mode: Mode) -> str:
        """Nothing: what is done of budgets is said with admission."""
        return ""
