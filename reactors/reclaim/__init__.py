"""Reclaiming a quota's use beyond its share: preemption, over-use, disruption budgets.

Everything here only calculates: it chooses pods and never evicts. Callers import :mod:`reactors.reclaim.preemption` itself.
"""

from reactors.reclaim.disruption import Budget, Pod, covers, importance, split_by_budget
from reactors.reclaim.overuse import Watch, over, revoked, watched

__all__ = [
    "Budget",
    "Pod",
    "Watch",
    "covers",
    "importance",
    "over",
    "revoked",
    "split_by_budget",
    "watched",
]
