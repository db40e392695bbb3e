"""The pods of its own quota that a pod may push off a node.

Pure; the caller knows the node and decides whether the pod fits it.

Decided here, differing from upstream's code: a victim is named once (upstream may name it twice); a
pod kept after all is in the quota's use again when the next one is tried; and if the quota
is too full even without all candidates none is evicted, since it would be useless.
Source: Koordinator `preempt.go`; docs/quotas.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from projections.quota_trees.elastic.admission import exceeded
from projections.quota_trees.elastic.shape import DEFAULT, Resources, add
from reactors.reclaim.disruption import Budget, Pod, importance, split_by_budget

OK, NO_VICTIMS, NODE_TOO_SMALL, QUOTA_TOO_FULL = (
    "ok",
    "no_victims",
    "node_too_small",
    "quota_too_full",
)


#: Pods with this label as "false" are no victims.
PREEMPTIBLE = "quota.scheduling.koordinator.sh/preemptible"


class Selection(msgspec.Struct, frozen=True):
    """The victims on one node, most important first, and how many of them violate a budget.

    `status` is one of the constants above; all but `OK` come without victims. `OK` without victims:
    the pod fits as it is.
    """

    status: str
    victims: tuple[Pod, ...] = ()
    violating: int = 0


def is_preemptible(labels: Mapping[str, str]) -> bool:
    """Whether a pod of these labels may be a victim."""
    return labels.get(PREEMPTIBLE) != "false"


def can_preempt(pod: Pod, victim: Pod, *, default_quota_protected: bool = True) -> bool:
    """Whether a pod may push out another: one of its own quota, of lower priority, preemptible.

    In the default quota none may (the default of newer releases).
    """
    if not victim.preemptible or pod.quota != victim.quota:
        return False
    if default_quota_protected and victim.quota == DEFAULT:
        return False
    return pod.priority > victim.priority


def is_eligible(
    pod: Pod,
    *,
    policy_never: bool,
    nominated: bool,
    unresolvable: bool,
    terminating: Iterable[Pod],
) -> bool:
    """Whether a pod may look for victims at all.

    Not with preemption policy Never. With a nominated node, not while a pod of lower priority of
    its quota is terminating there (`terminating`), since it makes room already; unless the pod could
    never run on that node (`unresolvable`).
    """
    if policy_never:
        return False
    if not nominated or unresolvable:
        return True
    return not any(
        other.quota == pod.quota and other.priority < pod.priority for other in terminating
    )


def select_victims(
    pod: Pod,
    on_node: Iterable[Pod],
    budgets: Sequence[Budget],
    *,
    used: Resources,
    limit: Resources,
    fits: Callable[[Sequence[Pod]], bool],
    default_quota_protected: bool = True,
) -> Selection:
    """The victims to make room for a pod on one node.

    All candidates are removed. If the pod fits then, they are put back from the most important
    to the least, those with a violated budget first, and stay if the pod still fits node
    and quota. `used` is the quota's use with the candidates, `fits(kept)` whether the pod fits
    the node beside these candidates and all other pods.
    """
    candidates = [
        other
        for other in on_node
        if can_preempt(pod, other, default_quota_protected=default_quota_protected)
    ]
    if not candidates:
        return Selection(NO_VICTIMS)
    if not fits(()):
        return Selection(NODE_TOO_SMALL)
    using = dict(used)
    for other in candidates:
        add(using, other.request, -1)
    if exceeded(using, pod.request, limit):
        return Selection(QUOTA_TOO_FULL)
    violating, others = split_by_budget(sorted(candidates, key=importance), budgets)
    kept: list[Pod] = []
    victims: list[Pod] = []
    for other in (*violating, *others):
        add(using, other.request)
        if fits([*kept, other]) and not exceeded(using, pod.request, limit):
            kept.append(other)
        else:
            add(using, other.request, -1)
            victims.append(other)
    lost = sum(other in violating for other in victims)
    return Selection(OK, tuple(sorted(victims, key=importance)), lost)
