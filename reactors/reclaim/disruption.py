"""Which pods may be disrupted within the disruption budgets there are.

Pure. Source: Kubernetes `filterPodsWithPDBViolation` as Koordinator's `preempt.go` has it;
docs/quotas.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

import msgspec


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


class Expression(msgspec.Struct, frozen=True):
    """One requirement of a label selector: In, NotIn, Exists or DoesNotExist."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class Budget(msgspec.Struct, frozen=True):
    """A PodDisruptionBudget: its selector, how many disruptions are left, who is counted already."""

    namespace: str
    allowed: int
    match_labels: Mapping[str, str] = {}
    match_expressions: tuple[Expression, ...] = ()
    disrupted: frozenset[str] = frozenset()


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
    """Whether a budget selects a pod. An empty or invalid selector selects nothing."""
    if budget.namespace != pod.namespace or not pod.labels:
        return False
    if not budget.match_labels and not budget.match_expressions:
        return False
    if not all(_is_valid(one) for one in budget.match_expressions):
        return False
    labels = pod.labels
    return all(labels.get(key) == value for key, value in budget.match_labels.items()) and all(
        _holds(one, labels) for one in budget.match_expressions
    )


def _is_valid(expression: Expression) -> bool:
    if expression.operator in {"In", "NotIn"}:
        return bool(expression.values)
    return expression.operator in {"Exists", "DoesNotExist"} and not expression.values


def _holds(expression: Expression, labels: Mapping[str, str]) -> bool:
    value = labels.get(expression.key)
    if expression.operator == "In":
        return value in expression.values
    if expression.operator == "NotIn":
        return value not in expression.values
    return (value is not None) == (expression.operator == "Exists")
