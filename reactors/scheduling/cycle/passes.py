"""The scheduler of one cluster: the queues of its profiles, and the pods that have a node ahead of the history.

Pure but for its state.

Everything it knows is folded in the order of the history: changes of the cluster, passes where they stand, binds that failed.
A pass is decided by trial: each pod that gets a node is counted there at once, so the next one sees what is left, and at
the end all is taken back. It takes effect when it is read. What happened to a node between the event on which a pass
was decided and the pass itself is seen by then: the node is asked again, and a pod that it does not take any more waits again.

Source: Kubernetes, "Scheduling Framework"; docs/scheduling.md.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec

from bus.events.constraints import HeldCpus
from bus.events.decisions import EffectSettled, Nomination, Refusal
from bus.events.policies import Mode
from projections.cluster import Change, ClusterState, Pod
from projections.cluster.reservations import FAILED, Reservation, SavedReservations
from projections.cluster.rows import Node
from projections.cluster.volumes import ClaimKey, Pvc, claims_of
from reactors.scheduling.cycle.assumed_pods import AssumedPods
from reactors.scheduling.cycle.profile_runners import ProfileRunners
from reactors.scheduling.framework.contract import Cycle
from reactors.scheduling.framework.profiles import Profile
from reactors.scheduling.gangs.shape import SavedGangs
from reactors.scheduling.preemption.nominations import Nominations
from reactors.scheduling.queueing.hints import Hint, hints_of
from reactors.scheduling.queueing.messages import unschedulable
from reactors.scheduling.queueing.queue import Queue
from reactors.scheduling.queueing.quota_state import QUOTAS, Moved, QuotaState
from reactors.scheduling.reservations.questions import WITHOUT_NODE
from reactors.scheduling.shape import Assumed, Dealt, Mark, WaitingPod, holds


class Scheduler:
    """Places the pods that name one of ``profiles``; in shadow all pods, those of other schedulers by the first profile."""

    def __init__(
        self,
        profiles: Sequence[Profile],
        cluster: ClusterState,
        *,
        is_shadow: bool = False,
        dealt: Mapping[str, Dealt] | None = None,
        preemption: Mode = "off",
        quotas: Callable[[], QuotaState | None] = lambda: None,
    ) -> None:
        self._cluster = cluster
        self.is_shadow = is_shadow
        #: Pods with a node that nobody has confirmed yet, by uid, in the order of their passes.
        self.assumed: dict[str, Assumed] = {}
        runners = self.runners = ProfileRunners(
            profiles, cluster, self.assumed, quotas, is_shadow=is_shadow, dealt=dealt
        )
        self.context, self.columns = runners.context, runners.context.columns
        self.frameworks, self.queues, self.gangs = runners.frameworks, runners.queues, runners.gangs
        #: None where no profile lets pods use them.
        self.reservations = runners.context.reservations
        #: Whether passes look for pods that have to go, and whether it is only recorded.
        self.preemption: Mode = preemption
        #: Pods for which others have to go.
        self.nominations = Nominations(
            cluster, self.columns, lambda uid: self.assumed_pods.waits(uid)
        )
        self.assumed_pods = AssumedPods(runners, self.assumed, self.nominations, cluster)
        #: Node, or claim with its namespace, to the newest event that changed it or its pods, but for pods that came as they
        #: were assumed.
        self.touched: dict[str, int] = {}

    def begin(
        self,
        at_us: int,
        gangs: SavedGangs | None = None,
        reservations: SavedReservations | None = None,
    ) -> None:
        """Queue whoever waits already. ``gangs`` and ``reservations``: what was known of them by another policy."""
        self.gangs.begin(gangs)
        if self.reservations is not None:
            self.reservations.begin(reservations)
            for row in self._cluster.reservations.values():
                self._reserved(row, at_us)
        for pod in self._cluster.pods.values():
            self._seen(pod, at_us)

    # what is folded

    def follow(self, changes: Sequence[Change], sequence: int, at_us: int) -> None:
        """The cluster changed: who waits, who is confirmed, who may be helped."""
        hints: set[Hint] = set()
        claims = {
            (one.after.namespace, one.after.name) for one in changes if isinstance(one.after, Pvc)
        }
        for change in changes:
            hints.update(hints_of(change))
            for node in _touches(change, self.assumed, self.queues.values()):
                self.touched[node] = sequence
        self.columns.follow(changes)
        if self.reservations is not None and self.reservations.follow(changes):
            hints.add(Hint.GONE)
        unlike = self.gangs.follow(changes)
        if any(change.kind == Node.kind for change in changes):
            if self.nominations.moved():
                hints.add(Hint.GONE)
            for one in self.assumed.values():
                if one.node not in self.columns.row_of:
                    self.gangs.forget(one.uid, is_lost=True)
        for change in changes:
            pod = change.after
            if isinstance(pod, Pod):
                self.nominations.saw(pod)
                self._seen(pod, at_us)
            elif isinstance(pod, Reservation):
                self._reserved(pod, at_us)
            elif isinstance(change.before, Pod | Reservation):
                self._left(change.uid, at_us)
        for uid in sorted(unlike):
            for queue in self.queues.values():
                queue.regate(uid, at_us)
        self.runners.happened(hints, at_us, claims)

    def quotas_moved(self, quotas: QuotaState, moved: Moved, sequence: int, at_us: int) -> None:
        """Passes that were decided before this event are asked again; pods that may be helped are tried, or tried again."""
        for queue in self.queues.values():
            if queue.gated and (moved.helps or moved.ends or moved.is_tick):
                for uid in quotas.below(moved.whom, queue.gated):
                    queue.regate(uid, at_us)
            if moved.ends and (helped := queue.helped_by(Hint.QUOTA)):
                queue.woken(quotas.below(moved.whom, helped), at_us)
        if moved.has_moved:
            self.touched[QUOTAS] = sequence
            self.runners.happened({Hint.QUOTA} if moved.helps else set(), at_us)

    def place(
        self, profile: str, uid: str, node: str, cards: tuple[int, ...], mark: Mark, cpus: HeldCpus | None = None,
    ) -> None:  # fmt: skip
        """A pass gave a node to a pod. Nothing where it waits no more; it waits again where the node takes it no more."""
        queue, framework = self.queues[profile], self.frameworks[profile]
        one, row = queue.get(uid), self.columns.row_of.get(node, -1)
        if one is None:
            return
        why = "" if row >= 0 else "the node is gone"
        read = (QUOTAS, node, *map("/".join, claims_of(one.pod)))
        if not why and any(self.touched.get(key, 0) > mark.after for key in read):
            why = framework.refuses(Cycle(one.pod, self.context), row)
        if not why:
            why = self.assumed_pods.assume(profile, one, node, cards, mark, cpus)
        if self.gangs.cycles is not None:
            self.gangs.cycles.tried(uid)
        if why:
            queue.failed(one, f"{node} took it no more: {why}", mark.at_us)
            self.assumed_pods.failed(profile, one.pod, mark.at_us)

    def refuse(self, profile: str, uid: str, refusal: Refusal, count: int, at_us: int) -> None:
        """A pass found no node for a pod among ``count``."""
        queue, nodes = self.queues[profile], refusal.nodes
        one = queue.get(uid)
        if one is not None:
            message = unschedulable(nodes, count, refusal.reason)
            queue.refused(one, nodes, self.frameworks[profile].helped_by(nodes), message, at_us)
            if self.gangs.cycles is not None:
                self.gangs.cycles.tried(uid)
                self.assumed_pods.failed(profile, one.pod, at_us)

    def refuse_again(self, profile: str, number: int, at_us: int) -> None:
        """A pass found no node for a pod, for the reasons that are known."""
        queue = self.queues[profile]
        one = queue.numbered(number)
        if one is not None:
            queue.refused(one, one.refused_by, one.helped_by, one.reason, at_us)

    def nominate(self, profile: str, asked: Nomination, node: str, mark: Mark) -> None:
        """A pass found who has to go for a pod. Nothing where that waits no more, or its node is gone.

        Victims that wait at Permit are rejected at once, with the waiting pods of their strict gangs; bound ones are evicted.
        """
        if self.queues[profile].get(asked.uid) is not None and node in self.columns.row_of:
            is_shadow = mark.is_shadow or self.preemption != "on"
            group = self.gangs.started_with(asked.uid)
            self.nominations.begin(profile, asked, node, mark, is_shadow=is_shadow, group=group)
            for victim in asked.victims if not is_shadow else ():
                self.assumed_pods.reject(victim.uid, f"preempted by pod {asked.uid}", mark.at_us)

    def settled(self, fact: EffectSettled, at_us: int) -> None:
        """What became of an eviction."""
        if self.nominations.settled(fact, at_us):
            self.runners.happened({Hint.GONE}, at_us)

    def passed(self, after: int) -> None:
        """A pass took effect: no later one is decided on less than was known then."""
        self.touched = {node: at for node, at in self.touched.items() if at > after}

    def elapse(self, at_us: int) -> None:
        """End the shadows that nobody has bound, waits that took too long, and the nominations that nobody makes room for."""
        if self.nominations.elapse(at_us):
            self.runners.happened({Hint.GONE}, at_us)
        if self.reservations is not None and (changed := self.reservations.elapse(at_us)):
            for uid in changed:
                if self.reservations.known.waits(row := self._cluster.reservations[uid]):
                    self._reserved(row, at_us)
                elif self.reservations.known.status(uid).phase == FAILED:
                    self._left(uid, at_us)
            self.runners.happened({Hint.GONE}, at_us)
        self.assumed_pods.elapse(at_us)

    # snapshots

    def restore(
        self,
        waiting: Mapping[str, Sequence[WaitingPod]],
        numbers: Mapping[str, int],
        assumed: Iterable[Assumed],
        reservations: SavedReservations | None,
    ) -> None:
        """Become what was saved, in a new scheduler. Raises KeyError or ValueError where that is wrong."""
        pods: Mapping[str, Pod] = self._cluster.pods
        if self.reservations is not None:
            self.reservations.begin(reservations)
            pods = ChainMap(self._cluster.pods, self.reservations.known.stand_ins())
        for name, ones in waiting.items():
            self.queues[name].restore(ones, numbers[name], pods)
        for found in assumed:
            self.assumed_pods.keep(found)

    def adopt(self, assumed: Iterable[Assumed]) -> None:
        """The policy changed: binds that may be under way still hold their room."""
        for one in assumed:
            if one.profile not in self.frameworks:
                one = msgspec.structs.replace(one, profile=next(iter(self.frameworks)))
            reads = self.frameworks[one.profile].reads_reservations
            if one.uid not in self._cluster.pods and not reads:
                # Nobody holds room for reservations any more.
                continue
            for queue in self.queues.values():
                queue.remove(one.uid)
            self.assumed_pods.keep(one)

    # questions

    def _seen(self, pod: Pod, at_us: int) -> None:
        if holds(pod):
            self._confirmed(pod.uid, at_us)
        elif pod.is_ended or pod.is_terminating:
            self._left(pod.uid, at_us)
        elif pod.uid not in self.assumed:
            name = self.runners.profile_of(pod)
            if name:
                self.queues[name].add(pod, pod.started_us, at_us)

    def _reserved(self, row: Reservation, at_us: int) -> None:
        """A reservation is seen: it waits for a node as a pod does, has one, or is over. Nothing where no profile asks for them."""
        if self.reservations is None:
            return
        if row.phase not in WITHOUT_NODE:
            self._confirmed(row.uid, at_us)
        elif not self.reservations.known.waits(row):
            self._left(row.uid, at_us)
        elif row.uid not in self.assumed:
            pod = self.runners.pod(row.uid)
            name = self.runners.profile_of(pod)
            if name and self.frameworks[name].reads_reservations:
                self.queues[name].add(pod, pod.started_us, at_us)

    def saved_reservations(self) -> SavedReservations | None:
        """What a snapshot holds of them; None where nobody asks for them."""
        return self.reservations.saved() if self.reservations is not None else None

    def handed_on(self, kept: Iterable[Assumed]) -> SavedReservations | None:
        """What another policy goes on with, which binds only the pods of ``kept``."""
        own = self.reservations
        return own.handed_on({one.uid for one in kept}) if own is not None else None

    def _confirmed(self, uid: str, at_us: int) -> None:
        self.assumed_pods.confirmed(uid, at_us)
        for queue in self.queues.values():
            queue.remove(uid)

    def _left(self, uid: str, at_us: int) -> None:
        """A pod goes, or is gone, before it was bound: nobody binds it any more."""
        for queue in self.queues.values():
            queue.remove(uid)
        if self.nominations.give_up(uid):
            self.runners.happened({Hint.GONE}, at_us)
        self.nominations.left(uid, at_us)
        self.assumed_pods.forget(uid, at_us)


def _touches(
    change: Change, assumed: Mapping[str, Assumed], queues: Iterable[Queue]
) -> Iterator[str]:
    """The nodes and claims that are not what a pass may have counted on."""
    for row in (change.before, change.after):
        if isinstance(row, Node):
            yield row.name
        elif isinstance(row, Reservation) and row.node:
            yield row.node
        elif isinstance(row, Pvc):
            yield from _awaited([(row.namespace, row.name)], queues)
    before, after = change.before, change.after
    if isinstance(after, Pod) and holds(after):
        known = assumed.get(after.uid)
        is_new = not isinstance(before, Pod) or not before.node
        if not (is_new and known is not None and known.node == after.node):
            yield after.node
            yield from _awaited(claims_of(after), queues)


def _awaited(claims: Sequence[ClaimKey], queues: Iterable[Queue]) -> Iterator[str]:
    """Those of the claims that waiting pods name, with their namespaces."""
    for key in claims:
        if any(queue.names(key) for queue in queues):
            yield "/".join(key)
