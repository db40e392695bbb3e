"""Which pods disruption budgets cover, as far as their selectors are known. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from projections.cluster import Pod
from reactors.reclaim.disruption import Budget, covers

if TYPE_CHECKING:
    from reactors.scheduling.columns import Columns


def budgets(columns: Columns) -> list[Budget]:
    """The disruption budgets of the cluster."""
    return [
        Budget(
            one.namespace, one.allowed, one.selector, frozenset(one.disrupted),
            frozenset(one.unkept_labels), one.is_cut,
        )
        for one in columns.disruption_budgets()
    ]  # fmt: skip


def is_covered(pod: Pod, columns: Columns) -> bool:
    """Whether a disruption budget covers a pod, or may do so."""
    return any(covers(one, pod) for one in budgets(columns))
