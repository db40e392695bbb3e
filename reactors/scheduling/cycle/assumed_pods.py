"""Pods placed by passes, until they are bound: pods waiting at Permit, and pods not to be bound any more.

Pure but for its state.

A pod failing after the choice of its node is unreserved by every plugin, in reverse order, including plugins not called before. A
Reserve plugin is called again when a pass is read and when a snapshot is restored, in the order of the passes.

Source: Kubernetes, "Scheduling Framework"; docs/scheduling.md.
"""

from __future__ import annotations

from collections.abc import Iterator

from bus.events.constraints import HeldCpus
from projections.cluster import ClusterState, Pod
from reactors.scheduling.cycle.claim_states import settled
from reactors.scheduling.cycle.profile_runners import ProfileRunners
from reactors.scheduling.framework.contract import Cycle
from reactors.scheduling.preemption.nominations import Nominations
from reactors.scheduling.queueing.hints import Hint
from reactors.scheduling.queueing.messages import TOKENS
from reactors.scheduling.queueing.queue import Queued
from reactors.scheduling.shape import Assumed, Mark


class AssumedPods:
    """The pods placed by passes, until they are bound. ``assumed``: these pods by uid, in the order of their passes."""

    def __init__(
        self,
        runners: ProfileRunners,
        assumed: dict[str, Assumed],
        nominations: Nominations,
        cluster: ClusterState,
    ) -> None:
        self._runners, self._assumed, self._nominations = runners, assumed, nominations
        self._cluster, self._context, self._gangs = cluster, runners.context, runners.gangs
        self._columns = runners.context.columns
        self._cycles: dict[str, Cycle] = {}

    def outstanding(self) -> Iterator[Assumed]:
        """The pods to bind, or with an unconfirmed bind, the oldest first."""
        return (one for one in self._assumed.values() if not one.is_shadow and not one.waits)

    def overtaken(self, found: Assumed, at_us: int) -> str:
        """The reason why newer facts forbid a bind as decided, as a token; "" = it may be done."""
        if found.uid not in self._assumed or self._assumed[found.uid].passed != found.passed:
            return "settled"
        row = self._columns.row_of.get(found.node)
        if row is None or self._columns.nodes[row].uid != found.node_uid:
            return "node_gone"
        pod, framework = self._runners.pod(found.uid), self._runners.frameworks[found.profile]
        others = framework.together(pod)
        if others is not None and others[0].missing(others[1], (), self._context):
            return "gang_broken"
        has_own = found.cpus is not None or found.cards
        if has_own and (why := framework.reserve(Cycle(pod, self._context), row)):
            return TOKENS.get(why, "taken")
        return settled(framework, Cycle(pod, self._context), row, at_us - found.at_us)

    def annotations(self, uid: str) -> dict[str, str]:
        """The annotations written on a pod in its binding."""
        found, pod = self._assumed.get(uid), self._cluster.pods.get(uid)
        row = self._columns.row_of.get(found.node) if found is not None else None
        if found is None or pod is None or row is None:
            return {}
        framework = self._runners.frameworks[found.profile]
        return framework.annotations(Cycle(pod, self._context), row, found.cards)

    def waits(self, uid: str) -> bool:
        """Whether a pod has a node and waits at Permit."""
        return uid in self._assumed and bool(self._assumed[uid].waits)

    def allow(self, uid: str, plugin: str, at_us: int) -> None:
        """Let a waiting pod be bound by a plugin; when all plugins have, it is bound."""
        found = self._assumed.get(uid)
        if found is not None and found.waits.pop(plugin, None) is not None and not found.waits:
            found.at_us = at_us
            self._gangs.released(uid)

    def reject(self, uid: str, reason: str, at_us: int) -> None:
        """Reject a pod waiting at Permit, and with it the pods named by its plugins; nothing if it does not wait."""
        if self.waits(uid):
            cycle = self._cycles[uid]
            framework = self._runners.frameworks[self._assumed[uid].profile]
            for other in (uid, *framework.forbids(cycle)):
                self.give_up(other, reason, at_us)

    def take_back(self, uid: str, passed: int, reason: str, at_us: int) -> None:
        """Undo the placement of a pass: it leaves no trace on the node, and the pod is tried again later.

        Nothing if it was confirmed, went, or got another node meanwhile.
        """
        found = self._assumed.get(uid)
        if found is not None and found.passed == passed:
            self.forget(uid, at_us)
            self._runners.queues[found.profile].failed(
                _queued(found, self._runners.pod(uid)), reason, at_us
            )
            self._runners.queues[found.profile].regate(uid, at_us)

    def failed(self, profile: str, pod: Pod, at_us: int) -> None:
        """A pod found no node: pods waiting for it in vain stop waiting."""
        if self._gangs.cycles is not None:
            self._gangs.cycles.failed(pod.uid)
        for other in self._runners.frameworks[profile].forbids(Cycle(pod, self._context)):
            self.give_up(other, f"{pod.name} found no node", at_us)

    def elapse(self, at_us: int) -> None:
        """End the unconfirmed shadows, and waits past their limit."""
        resting: dict[str, int] = {}
        for one in list(self._assumed.values()):
            if self._assumed.get(one.uid) is not one:
                continue
            if one.waits and min(one.waits.values()) <= at_us:
                why = f"waited too long for {', '.join(one.waits)}"
                for other in self._gangs.siblings(one.uid):
                    resting.setdefault(other, at_us - one.at_us)
                    self.reject(other, why, at_us)
            elif one.is_shadow and one.deadline_us <= at_us:
                self.take_back(one.uid, one.passed, "nobody bound it", at_us)
        for uid, rest_us in resting.items():
            for queue in self._runners.queues.values():
                queue.rest(uid, at_us + rest_us)

    def assume(
        self, profile: str, one: Queued, node: str, cards: tuple[int, ...], mark: Mark, cpus: HeldCpus | None,
    ) -> str:  # fmt: skip
        """Give a pod the node of a pass. Returns the reason of a failure; "" = it has the node."""
        framework, columns = self._runners.frameworks[profile], self._columns
        cycle = Cycle(one.pod, self._context)
        framework.prepare(cycle)
        columns.place(one.pod, node, cards, cpus)
        rejected = framework.reserve(cycle, columns.row_of[node])
        if rejected:
            framework.unreserve(cycle)
            columns.take_back(one.pod.uid)
            return rejected
        self._gangs.placed(one.pod.uid)
        rejected, waits = framework.permit(cycle, columns.row_of[node])
        if rejected:
            self._gangs.forget(one.pod.uid)
            framework.unreserve(cycle)
            columns.take_back(one.pod.uid)
            return rejected
        self._runners.queues[profile].remove(one.pod.uid)
        self.denominate(one.pod.uid, mark.at_us)
        self._cycles[one.pod.uid] = cycle
        self._assumed[one.pod.uid] = Assumed(
            one.pod.uid, profile, node, mark.passed, mark.decision, mark.at_us, mark.is_shadow, cards,
            one.added_us, one.number, one.attempts, {name: mark.at_us + wait for name, wait in waits.items()},
            cpus, columns.nodes[columns.row_of[node]].uid,
        )  # fmt: skip
        if waits:
            self._gangs.placed(one.pod.uid, waits=True)
            if self._gangs.cycles is not None:
                # It holds its room from now on: the other pods are tried.
                for queue in self._runners.queues.values():
                    queue.woken(self._gangs.together_with(one.pod.uid), mark.at_us)
        else:
            for uid, plugin in framework.permits(cycle):
                self.allow(uid, plugin, mark.at_us)
        return ""

    def keep(self, found: Assumed) -> None:
        """Keep the node of a pod of an earlier scheduler."""
        framework, columns = self._runners.frameworks[found.profile], self._columns
        cycle = Cycle(self._runners.pod(found.uid), self._context)
        self._assumed[found.uid], self._cycles[found.uid] = found, cycle
        framework.prepare(cycle)
        columns.place(cycle.pod, found.node, found.cards, found.cpus)
        if found.node in columns.row_of:
            framework.reserve(cycle, columns.row_of[found.node])
        if not self._gangs.is_lost(found.uid):
            self._gangs.placed(found.uid, waits=bool(found.waits))

    def give_up(self, uid: str, reason: str, at_us: int) -> None:
        """End a pod's wait at Permit; nothing if it does not wait."""
        found = self._assumed.get(uid)
        if found is not None and found.waits:
            self.forget(uid, at_us)
            one = _queued(found, self._runners.pod(uid))
            self._runners.queues[found.profile].rejected(one, reason, at_us, at_us - found.at_us)

    def forget(self, uid: str, at_us: int) -> None:
        """Take an assumed pod off its node, possibly helping others."""
        found = self._assumed.pop(uid, None)
        if found is not None:
            self._runners.frameworks[found.profile].unreserve(self._cycles.pop(uid))
            self._columns.take_back(uid)
            self._gangs.forget(uid)
            self._runners.happened({Hint.GONE}, at_us)

    def confirmed(self, uid: str, at_us: int) -> None:
        """A pod was observed on its node."""
        if self._assumed.pop(uid, None) is not None:
            del self._cycles[uid]
        self.denominate(uid, at_us)

    def denominate(self, uid: str, at_us: int) -> None:
        """End a pod's nomination, possibly helping others."""
        if self._nominations.end(uid):
            self._runners.happened({Hint.GONE}, at_us)


def _queued(found: Assumed, pod: Pod) -> Queued:
    return Queued(pod, found.added_us, found.number, attempts=found.attempts)
