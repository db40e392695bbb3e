"""Quotas that use more than their runtime: since when, and which pods they must give back.

Pure. Differing from upstream's code, all resources are counted from the first pod to the last
(there evicting a pod that asks only for cpu hides an over-use of memory).
Source: Koordinator `quota_overuse_revoke.go`; docs/queues.md.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from projections.quota_trees.elastic.shape import Resources, add
from reactors.reclaim.disruption import Pod, importance


class Watch(msgspec.Struct, frozen=True):
    """Since when one quota may be over its runtime: the last time it was seen within, or acted on.

    A quota that was never seen within counts from when it was first looked at.
    """

    within_us: int


def over(used: Resources, runtime: Resources) -> tuple[str, ...]:
    """The keys of which more is used than the runtime has, sorted; a key it lacks is free."""
    return tuple(sorted(key for key, limit in runtime.items() if used.get(key, 0) > limit))


def watched(watch: Watch | None, *, at_us: int, is_over: bool, delay_us: int) -> tuple[Watch, bool]:
    """The watch after one look, and whether pods are to be given back now.

    Now: over for strictly longer than the delay since it was within; then the watch starts anew.
    """
    if watch is None or not is_over:
        return Watch(at_us), False
    if at_us - watch.within_us > delay_us:
        return Watch(at_us), True
    return watch, False


def revoked(used: Resources, runtime: Resources, pods: Iterable[Pod]) -> list[Pod]:
    """The pods that a quota must give back to come within its runtime, most important first.

    Taken from the least important, non-preemptible ones left out, until what is used fits; of these
    the most important are handed back as far as it still fits. If it never fits, all of them.
    """
    using = dict(used)
    taken: list[Pod] = []
    for pod in sorted((pod for pod in pods if pod.preemptible), key=importance, reverse=True):
        if not over(using, runtime):
            break
        add(using, pod.request, -1)
        taken.append(pod)
    taken.reverse()
    if over(using, runtime):
        return taken
    victims = []
    for pod in taken:
        add(using, pod.request)
        if over(using, runtime):
            add(using, pod.request, -1)
            victims.append(pod)
    return victims
