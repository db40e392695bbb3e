"""Pods that passes gave nodes, until they are bound: pods that wait at Permit, and pods not to be bound any more.

Pure but for its state.

Who fails after its node was chosen is unreserved by every plugin, also by those that were never asked, the last one first.
A plugin that reserves is asked again where a pass is read and where a snapshot is restored, in the order of the passes.

Source: Kubernetes, "Scheduling Framework"; docs/scheduling.md.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from bus.events.constraints import HeldCpus
from bus.events.decisions import Nomination
from bus.events.policies import Mode
from projections.cluster import ClusterState, Pod
from projections.cluster.volumes import ClaimKey
from reactors.scheduling.columns.table import Columns
from reactors.scheduling.cycle.claim_states import settled
from reactors.scheduling.framework.bind_plugins import BindPlugins
from reactors.scheduling.framework.contract import CountsCycles, Cycle, extends
from reactors.scheduling.framework.profiles import Profile
from reactors.scheduling.framework.runner import Framework
from reactors.scheduling.gangs.cycles import GangCycles
from reactors.scheduling.gangs.state import Gangs
from reactors.scheduling.preemption.nominations import Nominations
from reactors.scheduling.queueing.hints import Hint
from reactors.scheduling.queueing.messages import TOKENS
from reactors.scheduling.queueing.queue import Queue, Queued
from reactors.scheduling.reservations.state import Reservations
from reactors.scheduling.shape import Assumed, Dealt, Mark


class AssumedPods:
    """Queues and frameworks of the profiles, and the pods with a node ahead of the history."""

    def __init__(
        self,
        profiles: Sequence[Profile],
        cluster: ClusterState,
        *,
        is_shadow: bool = False,
        dealt: Mapping[str, Dealt] | None = None,
        preemption: Mode = "off",
    ) -> None:
        self._cluster = cluster
        self.is_shadow = is_shadow
        self.columns = Columns(cluster, dealt)
        self.frameworks = {one.name: Framework(one, self.columns) for one in profiles}
        self.binders = {
            one.name: BindPlugins(enabled.plugin for enabled in one.plugins) for one in profiles
        }
        self.queues = {
            name: Queue(one.order, one.pre_enqueue) for name, one in self.frameworks.items()
        }
        #: The gangs of pods that these queues hold or that have nodes.
        self.gangs = self.columns.gangs = Gangs(cluster, lambda pod: bool(self.profile_of(pod)))
        plugins = [one.plugin for profile in profiles for one in profile.plugins]
        if any(extends(one, CountsCycles) and one.counts_cycles for one in plugins):
            self.gangs.cycles = GangCycles(self.gangs)
        #: None where no profile lets pods use them.
        self.reservations: Reservations | None = None
        #: Pods for which others have to go.
        self.nominations = Nominations(cluster, self.columns, self.waits)
        #: Whether passes look for such, and whether it is only recorded.
        self.preemption: Mode = preemption
        if any(one.learns for one in self.frameworks.values()):
            self.columns.learned()
        #: Pods with a node that nobody has confirmed yet, by uid, in the order of their passes.
        self.assumed: dict[str, Assumed] = {}
        self._cycles: dict[str, Cycle] = {}
        if any(one.reads_reservations for one in self.frameworks.values()):
            self.reservations = Reservations(cluster, self.columns, self.assumed)
            self.columns.reservations = self.reservations
        #: Node, or claim with its namespace, to the newest event that changed it or its pods, but for pods that came as they
        #: were assumed.
        self.touched: dict[str, int] = {}

    def profile_of(self, pod: Pod) -> str:
        """The profile that places a pod; "" = none does."""
        for name, framework in self.frameworks.items():
            if framework.profile.takes(pod):
                return name
        return next(iter(self.frameworks)) if self.is_shadow else ""

    def pod(self, uid: str) -> Pod:
        """A pod that exists, or the one that stands for a reservation. Raises KeyError where there is none."""
        found = self._cluster.pods.get(uid)
        if found is None and self.reservations is not None:
            return self.reservations.stand_in(uid)
        return self._cluster.pods[uid]

    def outstanding(self) -> Iterator[Assumed]:
        """The pods that are to be bound, or whose bind is not confirmed, the oldest first."""
        return (one for one in self.assumed.values() if not one.is_shadow and not one.waits)

    def overtaken(self, found: Assumed, at_us: int) -> str:
        """Why a pod must not be bound as it was decided, by what is known now, a token; "" = it may."""
        if found.uid not in self.assumed or self.assumed[found.uid].passed != found.passed:
            return "settled"
        row = self.columns.row_of.get(found.node)
        if row is None or self.columns.nodes[row].uid != found.node_uid:
            return "node_gone"
        pod, framework = self.pod(found.uid), self.frameworks[found.profile]
        others = framework.together(pod)
        if others is not None and others[0].missing(others[1], (), self.columns):
            return "gang_broken"
        has_own = found.cpus is not None or found.cards
        if has_own and (why := framework.reserve(Cycle(pod, self.columns), row)):
            return TOKENS.get(why, "taken")
        return settled(framework, Cycle(pod, self.columns), row, at_us - found.at_us)

    def annotations(self, uid: str) -> dict[str, str]:
        """What is written on a pod in the write that gives it its node."""
        found, pod = self.assumed.get(uid), self._cluster.pods.get(uid)
        row = self.columns.row_of.get(found.node) if found is not None else None
        if found is None or pod is None or row is None:
            return {}
        framework = self.frameworks[found.profile]
        return framework.annotations(Cycle(pod, self.columns), row, found.cards)

    def waits(self, uid: str) -> bool:
        """Whether a pod has a node and waits at Permit."""
        return uid in self.assumed and bool(self.assumed[uid].waits)

    def allow(self, uid: str, plugin: str, at_us: int) -> None:
        """A plugin lets a pod be bound that waits for it; when all have, it is."""
        found = self.assumed.get(uid)
        if found is not None and found.waits.pop(plugin, None) is not None and not found.waits:
            found.at_us = at_us
            self.gangs.released(uid)

    def reject(self, uid: str, reason: str, at_us: int) -> None:
        """A pod waits at Permit in vain, and with it those that its plugins say; nothing where it does not wait."""
        if self.waits(uid):
            cycle = self._cycles[uid]
            framework = self.frameworks[self.assumed[uid].profile]
            for other in (uid, *framework.forbids(cycle)):
                self._give_up(other, reason, at_us)

    def nominate(self, profile: str, asked: Nomination, node: str, mark: Mark) -> None:
        """A pass found who has to go for a pod. Nothing where that waits no more, or its node is gone.

        Victims that wait at Permit are rejected at once, with the waiting pods of their strict gangs; bound ones are evicted.
        """
        if self.queues[profile].get(asked.uid) is not None and node in self.columns.row_of:
            is_shadow = mark.is_shadow or self.preemption != "on"
            group = self.gangs.started_with(asked.uid)
            self.nominations.begin(profile, asked, node, mark, is_shadow=is_shadow, group=group)
            for victim in asked.victims if not is_shadow else ():
                self.reject(victim.uid, f"preempted by pod {asked.uid}", mark.at_us)

    def take_back(self, uid: str, passed: int, reason: str, at_us: int) -> None:
        """A pod does not get the node of a pass after all: it leaves no trace there, and is tried again later.

        Nothing where it was confirmed, went, or got another node meanwhile.
        """
        found = self.assumed.get(uid)
        if found is not None and found.passed == passed:
            self._forget(uid, at_us)
            self.queues[found.profile].failed(_queued(found, self.pod(uid)), reason, at_us)
            self.queues[found.profile].regate(uid, at_us)

    def happened(self, hints: set[Hint], at_us: int, claims: Collection[ClaimKey] = ()) -> None:
        """Who may be helped by that is tried again."""
        for queue in self.queues.values() if hints else ():
            queue.happened(hints, at_us, claims)

    def _assume(
        self, profile: str, one: Queued, node: str, cards: tuple[int, ...], mark: Mark, cpus: HeldCpus | None,
    ) -> str:  # fmt: skip
        framework, columns = self.frameworks[profile], self.columns
        cycle = Cycle(one.pod, columns)
        framework.prepare(cycle)
        columns.place(one.pod, node, cards, cpus)
        rejected = framework.reserve(cycle, columns.row_of[node])
        if rejected:
            framework.unreserve(cycle)
            columns.take_back(one.pod.uid)
            return rejected
        self.gangs.placed(one.pod.uid)
        rejected, waits = framework.permit(cycle, columns.row_of[node])
        if rejected:
            self.gangs.forget(one.pod.uid)
            framework.unreserve(cycle)
            columns.take_back(one.pod.uid)
            return rejected
        self.queues[profile].remove(one.pod.uid)
        self._denominate(one.pod.uid, mark.at_us)
        self._cycles[one.pod.uid] = cycle
        self.assumed[one.pod.uid] = Assumed(
            one.pod.uid, profile, node, mark.passed, mark.decision, mark.at_us, mark.is_shadow, cards,
            one.added_us, one.number, one.attempts, {name: mark.at_us + wait for name, wait in waits.items()},
            cpus, columns.nodes[columns.row_of[node]].uid,
        )  # fmt: skip
        if waits:
            self.gangs.placed(one.pod.uid, waits=True)
            if self.gangs.cycles is not None:
                # It holds its room from now on: the others are tried.
                for queue in self.queues.values():
                    queue.woken(self.gangs.together_with(one.pod.uid), mark.at_us)
        else:
            for uid, plugin in framework.permits(cycle):
                self.allow(uid, plugin, mark.at_us)
        return ""

    def _keep(self, found: Assumed) -> None:
        framework, columns = self.frameworks[found.profile], self.columns
        cycle = Cycle(self.pod(found.uid), columns)
        self.assumed[found.uid], self._cycles[found.uid] = found, cycle
        framework.prepare(cycle)
        columns.place(cycle.pod, found.node, found.cards, found.cpus)
        if found.node in columns.row_of:
            framework.reserve(cycle, columns.row_of[found.node])
        if not self.gangs.is_lost(found.uid):
            self.gangs.placed(found.uid, waits=bool(found.waits))

    def _give_up(self, uid: str, reason: str, at_us: int) -> None:
        found = self.assumed.get(uid)
        if found is not None and found.waits:
            self._forget(uid, at_us)
            one = _queued(found, self.pod(uid))
            self.queues[found.profile].rejected(one, reason, at_us, at_us - found.at_us)

    def _forget(self, uid: str, at_us: int) -> None:
        """Take an assumed pod off its node, which may help others."""
        found = self.assumed.pop(uid, None)
        if found is not None:
            self.frameworks[found.profile].unreserve(self._cycles.pop(uid))
            self.columns.take_back(uid)
            self.gangs.forget(uid)
            self.happened({Hint.GONE}, at_us)

    def _denominate(self, uid: str, at_us: int) -> None:
        """A pod waits for nobody's room any more, which may help others."""
        if self.nominations.end(uid):
            self.happened({Hint.GONE}, at_us)


def _queued(found: Assumed, pod: Pod) -> Queued:
    return Queued(pod, found.added_us, found.number, attempts=found.attempts)
