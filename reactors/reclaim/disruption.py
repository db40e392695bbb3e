"""The view of a pod for reclaiming: the more important of two, and the pods within their disruption budgets.

Pure. Among pods of equal priority and start the name decides, so equal pods always come out the same.

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
    """The fields of a pod that a budget's protection depends on."""

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
    """A pod with holdings of a quota.

    `request` in the quota's units; `started_us` None before its start: then it is the
    least important of its priority. `preemptible` False if the pod's label of that name is
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
    """A PodDisruptionBudget: its selector, its remaining disruptions, the pods counted already."""

    namespace: str
    allowed: int
    selector: LabelSelector | None = None
    disrupted: frozenset[str] = frozenset()
    #: Labels of its selector that sources do not keep of pods: it covers every possible match.
    unknown: frozenset[str] = frozenset()
    #: Its selector is unknown: it covers all pods of its namespace.
    is_cut: bool = False


def known(observed: Iterable[DisruptionBudget]) -> list[Budget]:
    """The observed budgets."""
    return [
        Budget(
            one.namespace, one.allowed, one.selector, frozenset(one.disrupted),
            frozenset(one.unkept_labels), one.is_cut,
        )
        for one in observed
    ]  # fmt: skip


def split_by_budget(pods: Iterable[P], budgets: Sequence[Budget]) -> tuple[list[P], list[P]]:
    """The pods whose disruption violates a budget, and the others, both in the given order.

    Each pod takes one from every budget that covers it, and violates those without any left.
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
