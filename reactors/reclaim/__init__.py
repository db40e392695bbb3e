"""Taking back what a quota uses beyond its share: preemption, over-use, disruption budgets.

Everything here only calculates: it says which pods, never evicts.
"""

from reactors.reclaim.disruption import Budget, Pod, covers, importance, split_by_budget
from reactors.reclaim.overuse import Watch, over, revoked, watched
from reactors.reclaim.preemption import Selection, can_preempt, is_eligible, select_victims

__all__ = [
    "Budget",
    "Pod",
    "Selection",
    "Watch",
    "can_preempt",
    "covers",
    "importance",
    "is_eligible",
    "over",
    "revoked",
    "select_victims",
    "split_by_budget",
    "watched",
]
