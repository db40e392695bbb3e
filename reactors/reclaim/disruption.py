"""Which pods may be disrupted within the disruption budgets there are.

Pure. Source: Kubernetes `filterPodsWithPDBViolation` as Koordinator's `preempt.go` has it;
docs/quotas.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

import msgspec

from bus.events.constraints import LabelSelector, is_empty, is_valid, selects, without


class Pod(Protocol):
    """What decides whether a budget protects a pod."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def namespace(self) -> str:
        """Its namespace."""

    @property
    def labels(self) -> Mapping[str, str]:
        """Its labels."""


P = TypeVar("P", bound=Pod)


class Budget(msgspec.Struct, frozen=True):
    """A PodDisruptionBudget: its selector, how many disruptions are left, who is counted already."""

    namespace: str
    allowed: int
    selector: LabelSelector | None = None
    disrupted: frozenset[str] = frozenset()
    #: Labels of its selector that are not known of pods: it covers whoever it may mean.
    unknown: frozenset[str] = frozenset()
    #: Nothing of its selector is known: it covers all pods of its namespace.
    is_cut: bool = False


def split_by_budget(pods: Iterable[P], budgets: Sequence[Budget]) -> tuple[list[P], list[P]]:
    """The pods whose disruption violates a budget, and the others, both in the order given.

    Each pod takes one from every budget that covers it, and violates those that have none left.
    Not covered: pods without labels, of another namespace, or counted as disrupted already.
    """
    left = [budget.allowed for budget in budgets]
    violating: list[P] = []
    others: list[P] = []
    for pod in pods:
        violates = False
        for number, budget in enumerate(budgets):
            if covers(budget, pod) and pod.name not in budget.disrupted:
                left[number] -= 1
                violates |= left[number] < 0
        (violating if violates else others).append(pod)
    return violating, others


def covers(budget: Budget, pod: Pod) -> bool:
    """Whether a budget selects a pod, or may do so. An empty or invalid selector selects nothing."""
    selector = budget.selector
    if budget.namespace != pod.namespace:
        return False
    if selector is None or is_empty(selector) or not is_valid(selector):
        return budget.is_cut
    if not pod.labels and not budget.unknown:
        return False
    return selects(without(selector, budget.unknown), pod.labels)
