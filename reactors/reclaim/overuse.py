"""Quotas above their runtime: the time since then, and the pods to evict.

Pure. Differing from upstream's code, all resources are counted from the first pod to the last
(there, evicting a pod with only cpu hides an over-use of memory).
Source: Koordinator `quota_overuse_revoke.go`; docs/queues.md.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from projections.quota_trees.elastic.shape import Resources, add
from reactors.reclaim.disruption import Pod, importance


class Watch(msgspec.Struct, frozen=True):
    """The last time when one quota was within its runtime, or was acted on.

    A quota never observed within its runtime counts from its first check.
    """

    within_us: int


def over(used: Resources, runtime: Resources) -> tuple[str, ...]:
    """The keys used beyond the runtime, sorted; a key absent from the runtime is free."""
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
    """The pods to evict from a quota to come within its runtime, most important first.

    Taken from the least important, without non-preemptible ones, until the use fits. Of these
    the most important are kept after all, as long as it still fits. If it never fits, all of them.
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
