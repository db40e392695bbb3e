"""A pod as reclaiming looks at it, which of two is the more important, and which may be disrupted within the budgets there are.

Pure. Of pods that are alike in priority and start the name decides, so that equal pods always come out the same.

Source: Kubernetes `MoreImportantPod` and `filterPodsWithPDBViolation` as Koordinator's `preempt.go` has it;
docs/quotas.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

import msgspec

from bus.events.constraints import LabelSelector, is_empty, is_valid, selects, without
from projections.cluster.pod_terms import DisruptionBudget


class Labelled(Protocol):
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


P = TypeVar("P", bound=Labelled)


class Pod(msgspec.Struct, frozen=True):
    """A pod that holds something of a quota.

    `request` in the quota's units; `started_us` None where it has not started yet: then it is the
    least important of its priority. `preemptible` False where the pod's label of that name says
    "false": such a pod is never a victim.
    """

    name: str
    namespace: str = ""
    quota: str = ""
    priority: int = 0
    started_us: int | None = None
    request: Mapping[str, int] = {}
    labels: Mapping[str, str] = {}
    preemptible: bool = True


def importance(pod: Pod) -> tuple[int, bool, int, str, str]:
    """Sorts pods from the most important to the least."""
    waits = pod.started_us is None
    return (-pod.priority, waits, pod.started_us or 0, pod.namespace, pod.name)


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


def known(observed: Iterable[DisruptionBudget]) -> list[Budget]:
    """The budgets that were observed."""
    return [
        Budget(
            one.namespace, one.allowed, one.selector, frozenset(one.disrupted),
            frozenset(one.unkept_labels), one.is_cut,
        )
        for one in observed
    ]  # fmt: skip


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


def covers(budget: Budget, pod: Labelled) -> bool:
    """Whether a budget selects a pod, or may do so. An empty or invalid selector selects nothing."""
    selector = budget.selector
    if budget.namespace != pod.namespace:
        return False
    if selector is None or is_empty(selector) or not is_valid(selector):
        return budget.is_cut
    if not pod.labels and not budget.unknown:
        return False
    return selects(without(selector, budget.unknown), pod.labels)
