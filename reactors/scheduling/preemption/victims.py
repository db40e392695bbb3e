"""Victims of preemption: pods to evict for a more important pod, and whole gangs left with too few pods. Pure.

The spare pods of a gang, beyond its minimum, may be evicted one by one. Beyond these, either all pods of the gang and of the gangs
starting with it are evicted, or none: the rest would do nothing and hold its room. So a gang with a pod exempt from eviction loses
only its spare pods. A native PodGroup with ``disruptionMode: PodGroup`` (``all`` in 1.37) has no spare pods.

Source: Kubernetes, "Workload-Aware Preemption" and "Pod Group Disruption and Priority"; docs/scheduling.md.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from projections.cluster import Pod
from reactors.reclaim.disruption import Budget, split_by_budget
from reactors.scheduling.framework.context import PluginContext
from reactors.scheduling.gangs.shape import Gang
from reactors.scheduling.queueing.messages import SYSTEM_NAMESPACES

#: Makes every priority positive, so fewer victims of negative priority are not worse than more of them.
_LIFTED = 2**31


def importance(pod: Pod) -> tuple[int, int, str]:
    """Sorts pods from the most important to the least."""
    return -pod.priority, pod.started_us, pod.uid


def cost(victims: Sequence[Pod], violating: int = 0) -> tuple[int, int, int, int, int]:
    """Sorts ways to make room, the cheapest first. ``victims``: the most important first; budgets protect ``violating`` of them."""
    highest = victims[0].priority
    return (
        violating,
        highest,
        sum(victim.priority + _LIFTED for victim in victims),
        len(victims),
        -min(victim.started_us for victim in victims if victim.priority == highest),
    )


def protected(pods: Iterable[Pod], budgets: Sequence[Budget]) -> list[Pod]:
    """The pods whose eviction violates a disruption budget. A pod waiting at Permit is rejected, not evicted."""
    return split_by_budget([one for one in pods if one.node], budgets)[0]


class Victims:
    """Possible victims for ``pod``, in addition to the pods lifted already. ``may_go``: false for pods spared by a plugin."""

    def __init__(self, context: PluginContext, pod: Pod, may_go: Callable[[Pod], bool]) -> None:
        self._columns, self._pod, self._may_go = context.columns, pod, may_go
        gangs = self._gangs = context.gangs
        own = gangs.of(pod.uid) if gangs is not None else None
        self._own = [one.key for one in self._group(own)] if own is not None else []
        self._gone = frozenset(context.columns.lifted)
        self._whole: dict[str, bool] = {}

    def on(self, row: int) -> list[Pod]:
        """The evictable pods of a node, the most important first."""
        lower = [one.pod for one in self._columns.placed_on(row) if self._is_lower(one.pod)]
        found, spare = list[Pod](), dict[str, int]()
        for pod in sorted(lower, key=self.importance, reverse=True):
            gang = self._gang(pod.uid)
            if gang is not None and not self._goes_whole(gang):
                left = spare.setdefault(gang.key, self._spare(gang, self._gone))
                spare[gang.key] -= 1
                if left <= 0:
                    continue
            found.append(pod)
        return found[::-1]

    def beside(self, victims: Collection[Pod]) -> list[Pod]:
        """Further victims: the other pods of gangs left with too few pods, and of the gangs starting with these."""
        gone = self._gone | {one.uid for one in victims}
        found: dict[str, Pod] = {}
        for pod in victims:
            gang = self._gang(pod.uid)
            if gang is not None and self._spare(gang, gone) < 0:
                found |= {one.uid: one for each in self._group(gang) for one in self._pods(each)}
        return [found[uid] for uid in sorted(found.keys() - gone)]

    def importance(self, pod: Pod) -> tuple[int, int, int, str]:
        """Sorts pods from the most important to the least; at equal priority, pods of large gangs without spare pods come first."""
        gang = self._gang(pod.uid)
        size = 0 if gang is None or self._spare(gang, ()) > 0 else len(gang.bound)
        return -pod.priority, -size, pod.started_us, pod.uid

    def core(self, uid: str) -> list[str]:
        """The pods needed by its gang and each gang starting with it: the most important ones. [] = it is in no gang."""
        gang, found = self._gang(uid), list[str]()
        for one in self._group(gang) if gang is not None else ():
            ranked = sorted(self._pods(one), key=importance)
            found += [pod.uid for pod in ranked[: len(ranked) - self._spare(one, ())]]
        return found

    def keeps(self, uid: str, gone: Collection[str]) -> bool:
        """Whether the pod's gang, and each gang starting with it, keeps enough pods without ``gone``."""
        gang = self._gang(uid)
        return gang is None or all(self._spare(one, gone) >= 0 for one in self._group(gang))

    def _is_lower(self, pod: Pod) -> bool:
        if pod.priority >= self._pod.priority or pod.namespace in SYSTEM_NAMESPACES:
            return False
        if not self._may_go(pod):
            return False
        gang = self._gangs.of(pod.uid) if self._gangs is not None else None
        return gang is None or gang.key not in self._own

    def _gang(self, uid: str) -> Gang | None:
        """The gang of a pod on a node; None where it is in none, or its pods start by themselves."""
        gang = self._gangs.of(uid) if self._gangs is not None else None
        return gang if gang is not None and uid in gang.bound and self._least(gang) else None

    def _least(self, gang: Gang) -> int:
        """The number of pods needed by a gang; 0 = unknown, or its pods start by themselves."""
        needs = self._gangs.needs(gang.key) if self._gangs is not None else None
        if needs is None or needs.least is None:
            return 0
        return len(gang.bound) if needs.goes_whole else needs.least

    def _spare(self, gang: Gang, gone: Iterable[str]) -> int:
        return len(gang.bound.difference(gone)) - self._least(gang)

    def _group(self, gang: Gang) -> list[Gang]:
        """The gangs starting together with one, itself among them."""
        assert self._gangs is not None
        found = (self._gangs.all.get(key) for key in self._gangs.group(gang.key))
        return [one for one in found if one is not None]

    def _goes_whole(self, gang: Gang) -> bool:
        """Whether all pods of a gang, and of the gangs starting with it, may be evicted."""
        known = self._whole.get(gang.key)
        if known is None:
            group = self._group(gang)
            known = all(self._is_lower(pod) for one in group for pod in self._pods(one))
            self._whole.update({one.key: known for one in group})
        return known

    def _pods(self, gang: Gang) -> list[Pod]:
        """The pods of a gang on nodes, or to be bound."""
        found = (self._columns.counted(uid) for uid in sorted(gang.bound | gang.assumed))
        return [placed.pod for placed in found if placed is not None]
