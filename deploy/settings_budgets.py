"""What may be set of budgets. Source: ``docs/admission.md``."""

from __future__ import annotations

from reactors.engine.settings import WarnSettings


class BudgetSettings(WarnSettings):
    """Who is told when a budget runs out: at 80 % of it, when it is spent, and when the grace after that is over."""
