"""Open preemptions of passes: the nominated pod, its node, and its victims. Pure but for its state.

The room of a nominated pod is held against pods of lower or equal priority, as in kube-scheduler. A nomination ends when its pod
is placed or gone, when its node is gone, when a more important pod is nominated there, when the eviction of a victim is refused
(for example by a disruption budget), and after ten minutes without an eviction. A pod is spared for five minutes after a refused
eviction, each further time twice as long, an hour at most: else a protected pod would be chosen for ever, and others evicted in
vain. A victim still ending after an hour, or not even beginning to, is never chosen again: its node cannot end it, and other
victims may be evicted.

The pods of a strict gang are nominated in one pass. Except for placed pods, their nominations end together: room for some of them
is useless.

Source: Kubernetes, "Pod Priority and Preemption"; docs/scheduling.md.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from bus.clock import SECOND_US
from bus.events.decisions import EffectSettled, Evict, Nomination
from projections.cluster import ClusterState, Pod
from reactors.scheduling.columns.table import Columns, Placed
from reactors.scheduling.framework.contract import Cycle, Sparing
from reactors.scheduling.framework.runner import Framework
from reactors.scheduling.shape import Evicting, Mark, Nominated, Rested, holds

#: A nomination without an ending victim ends after so long, twice the window of the interlocks; one with ending victims after this
#: at the latest.
IDLE_US = 600 * SECOND_US
LONGEST_US = 3_600 * SECOND_US
#: The pause of a pod after a refused eviction; each further refusal doubles it.
REST_US = 300 * SECOND_US
LONGEST_REST_US = 3_600 * SECOND_US
#: A pause until the pod is gone.
FOREVER_US = 2**62


class Nominations:
    """The nominations of one cluster, with their room held in ``columns``. A shadow holds nothing."""

    def __init__(
        self, cluster: ClusterState, columns: Columns, waits: Callable[[str], bool]
    ) -> None:
        """``waits``: whether a pod has room on a node and waits at Permit."""
        self._cluster = cluster
        self._columns = columns
        self._waits = waits
        #: By the uid of the pod, in the order of their passes.
        self.all: dict[str, Nominated] = {}
        #: Decided evictions without a failure, by the uid of the victim.
        self.evicting: dict[str, Evicting] = {}
        #: Pods with a refused eviction, or unable to end.
        self.rested: dict[str, Rested] = {}

    def __iter__(self) -> Iterator[Nominated]:
        return iter(list(self.all.values()))

    def restore(
        self,
        nominated: Iterable[Nominated],
        evicting: dict[str, Evicting],
        rested: dict[str, Rested],
    ) -> None:
        """Restore a saved state. Raises KeyError for an invalid one."""
        for one in nominated:
            self._keep(one)
        self.evicting, self.rested = dict(evicting), dict(rested)

    # folding

    def begin(
        self, profile: str, asked: Nomination, node: str, mark: Mark, *, is_shadow: bool, group: str = ""
    ) -> None:  # fmt: skip
        """A pass nominated a pod; nominations of less important pods to its node end."""
        one = Nominated(
            asked.uid, profile, node, asked.victims, mark.passed, mark.decision, is_shadow,
            mark.at_us, group=group,
        )  # fmt: skip
        self.all.pop(one.uid, None)
        pod = self._cluster.pods[one.uid]
        for other in self:
            known = self._cluster.pods.get(other.uid)
            is_less = known is None or known.priority < pod.priority
            is_own = bool(group) and other.group == group
            if is_own and other.passed != one.passed:
                self.end(other.uid)
            if (
                other.node == one.node
                and other.is_shadow == one.is_shadow
                and is_less
                and not is_own
            ):
                self.give_up(other.uid)
        self._keep(one)

    def _keep(self, one: Nominated) -> None:
        self.all[one.uid] = one
        self._columns.nominated.pop(one.uid, None)
        if not one.is_shadow:
            self._columns.nominated[one.uid] = Placed(self._cluster.pods[one.uid], one.node)

    def end(self, uid: str) -> bool:
        """End a pod's nomination; whether it held room."""
        self.all.pop(uid, None)
        return self._columns.nominated.pop(uid, None) is not None

    def give_up(self, uid: str) -> bool:
        """End a pod's nomination in vain, with those of its whole gang; whether room was held."""
        one = self.all.get(uid)
        return any([self.end(other.uid) for other in self._with(one)]) if one is not None else False

    def _with(self, one: Nominated) -> Collection[Nominated]:
        """The nominations ending together."""
        return [other for other in self if other.group == one.group] if one.group else (one,)

    def saw(self, pod: Pod) -> None:
        """Record a pod's newest observation for its nomination."""
        one = self._columns.nominated.get(pod.uid)
        if one is not None:
            self._columns.nominated[pod.uid] = Placed(pod, one.node)

    def left(self, uid: str, at_us: int) -> None:
        """A pod is gone: nominations still waiting for other victims get more time."""
        self.rested.pop(uid, None)
        if uid in self.evicting and self.evicting[uid].is_over:
            del self.evicting[uid]
        for one in self.wanting(uid):
            for other in self._with(one):
                other.at_us = at_us

    def decided(self, decision: Evict) -> None:
        """The eviction of a pod was decided. Searches for victims do not depend on it: it is known before it is read."""
        # A finished one counts until its pod is gone.
        if not decision.is_shadow or decision.key in self._cluster.pods:
            self.evicting[decision.key] = Evicting(decision.id, decision.is_shadow)

    def settled(self, fact: EffectSettled, at_us: int) -> bool:
        """Record the outcome of an eviction; whether held room is released by it."""
        uid = next((uid for uid, one in self.evicting.items() if one.decision == fact.decision), "")
        if not uid:
            return False
        is_there, is_done = uid in self._cluster.pods, fact.result == "done"
        del self.evicting[uid]
        if is_done and is_there:
            self.evicting[uid] = Evicting(fact.decision, is_over=True)
        wanting = self.wanting(uid)
        if is_done:
            for one in wanting:
                for other in self._with(one):
                    other.is_making_room, other.at_us = True, at_us
        if fact.result != "refused":
            return False
        if is_there:
            known = self.rested.get(uid, Rested(0, 0))
            rest_us = min(REST_US << min(known.times, 8), LONGEST_REST_US)
            # A pod unable to end rests for good.
            self.rested[uid] = Rested(known.times + 1, max(known.until_us, at_us + rest_us))
        return any([self.give_up(one.uid) for one in wanting])

    def elapse(self, at_us: int) -> bool:
        """End the nominations without progress; whether room was held for them."""
        is_held = False
        for one in self:
            if one.uid not in self.all:
                continue
            there = [pod for other in self._with(one) for pod in self.victims(other)]
            is_going = any(pod.is_terminating for pod in there)
            if at_us - one.at_us >= (LONGEST_US if is_going else IDLE_US):
                # In a shadow no pod was evicted.
                stuck = [pod.uid for pod in there if self.ends(pod) and not one.is_shadow]
                self.rested.update(dict.fromkeys(stuck, Rested(1, FOREVER_US)))
                is_held |= self.give_up(one.uid)
        return is_held

    def moved(self) -> bool:
        """Nodes came or went: end the nominations to missing nodes; whether there were any."""
        gone = [one.uid for one in self if one.node not in self._columns.row_of]
        for uid in gone:
            self.give_up(uid)
        return bool(gone)

    # questions

    def victims(self, one: Nominated) -> list[Pod]:
        """Remaining victims of a nominated pod, the most important first.

        A shadow rejects no pod, so those waiting at Permit count, too.
        """
        found = (self._cluster.pods.get(victim.uid) for victim in one.victims)
        return [
            pod
            for pod in found
            if pod is not None and (holds(pod) or (one.is_shadow and self._waits(pod.uid)))
        ]

    def staying(self) -> Iterator[tuple[Nominated, list[Pod]]]:
        """Of each nomination the bound victims without an eviction yet; those of a gang under the first of its pods."""
        seen: set[str] = set()
        for one in self:
            if one.group in seen:
                continue
            seen.update({one.group} - {""})
            victims = {pod.uid: pod for other in self._with(one) for pod in self.victims(other)}
            yield one, [pod for pod in victims.values() if holds(pod) and not self.ends(pod)]

    def ends(self, pod: Pod) -> bool:
        """Whether a pod is ending, or would in a shadow."""
        known = self.evicting.get(pod.uid)
        return pod.is_terminating or (known is not None and known.is_over)

    def wanting(self, uid: str) -> list[Nominated]:
        """The nominations with this pod as a victim."""
        return [one for one in self if any(victim.uid == uid for victim in one.victims)]

    def awaits(self, uid: str, framework: Framework, cycle: Cycle) -> bool:
        """Whether room is already being made for a pod, on a node still open to it."""
        one = self.all.get(uid)
        if one is None or not any(map(self.victims, self._with(one))):
            return False
        return not framework.filtering.keeps_away(cycle, self._columns.row_of[one.node])

    def sparing(self, at_us: int) -> Sparing:
        """Pods spared by a search for victims: resting, on their way to a node, or protected by a budget.

        Pods waiting at Permit are victims like others.
        """
        pods = self._cluster.pods
        rests = {uid for uid, one in self.rested.items() if one.until_us > at_us}

        def may_go(pod: Pod) -> bool:
            known = pods.get(pod.uid)
            if known is None or pod.uid in rests:
                return False
            return holds(known) or self._waits(pod.uid)

        return Sparing(may_go, is_protected=True)


def hold(columns: Columns, seats: Sequence[Placed]) -> None:
    """Hold nodes for pods from now on; less important pods hold these no more."""
    kept = {
        uid: one
        for uid, one in columns.nominated.items()
        if all(one.node != seat.node or one.pod.priority >= seat.pod.priority for seat in seats)
    }
    columns.nominated = kept | {seat.pod.uid: seat for seat in seats}
