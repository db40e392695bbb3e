"""Taking back what a quota uses beyond its share: preemption, over-use, disruption budgets.

Everything here only calculates: it says which pods, never evicts. :mod:`reactors.reclaim.preemption` is imported by who needs it.
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
