"""The scheduler of one cluster: the queues of its profiles, and the pods with a node ahead of the history.

Pure but for its state.

Its state is folded in the order of the history: changes of the cluster, passes at their places, failed binds. A pass is decided by
trial: each placed pod is counted at once, so the next one finds the remaining room, and at the end all placements are taken back.
A pass takes effect when it is read. A node may have changed between the event of the pass's decision and the pass itself: it is
checked again, and a pod refused by it waits again.

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
    """Schedules pods of ``profiles``. In shadow mode the first profile also schedules pods of other schedulers."""

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
        #: Pods with an unconfirmed node, by uid, in the order of their passes.
        self.assumed: dict[str, Assumed] = {}
        runners = self.runners = ProfileRunners(
            profiles, cluster, self.assumed, quotas, is_shadow=is_shadow, dealt=dealt
        )
        self.context, self.columns = runners.context, runners.context.columns
        self.frameworks, self.queues, self.gangs = runners.frameworks, runners.queues, runners.gangs
        #: None without a profile for reservations.
        self.reservations = runners.context.reservations
        #: Whether passes search for victims, and whether these are only recorded.
        self.preemption: Mode = preemption
        #: Pods with victims.
        self.nominations = Nominations(
            cluster, self.columns, lambda uid: self.assumed_pods.waits(uid)
        )
        self.assumed_pods = AssumedPods(runners, self.assumed, self.nominations, cluster)
        #: Node, or claim with its namespace, to the newest event with a change of it or its pods, without pods observed as
        #: assumed.
        self.touched: dict[str, int] = {}

    def begin(
        self,
        at_us: int,
        gangs: SavedGangs | None = None,
        reservations: SavedReservations | None = None,
    ) -> None:
        """Queue the waiting pods. ``gangs`` and ``reservations``: their state by another policy."""
        self.gangs.begin(gangs)
        if self.reservations is not None:
            self.reservations.begin(reservations)
            for row in self._cluster.reservations.values():
                self._reserved(row, at_us)
        for pod in self._cluster.pods.values():
            self._seen(pod, at_us)

    # folding

    def follow(self, changes: Sequence[Change], sequence: int, at_us: int) -> None:
        """Follow the changes of the cluster: waiting pods, confirmed pods, and pods possibly helped."""
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
        """Check passes decided before this event again; pods possibly helped are tried, or tried again."""
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
        """A pass gave a node to a pod. Nothing if it waits no more; it waits again if the node refuses it now."""
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
        """A pass found no node for a pod, for the known reasons."""
        queue = self.queues[profile]
        one = queue.numbered(number)
        if one is not None:
            queue.refused(one, one.refused_by, one.helped_by, one.reason, at_us)

    def nominate(self, profile: str, asked: Nomination, node: str, mark: Mark) -> None:
        """A pass found victims for a pod. Nothing if the pod waits no more, or its node is gone.

        Victims waiting at Permit are rejected at once, with the waiting pods of their strict gangs; bound ones are evicted.
        """
        if self.queues[profile].get(asked.uid) is not None and node in self.columns.row_of:
            is_shadow = mark.is_shadow or self.preemption != "on"
            group = self.gangs.started_with(asked.uid)
            self.nominations.begin(profile, asked, node, mark, is_shadow=is_shadow, group=group)
            for victim in asked.victims if not is_shadow else ():
                self.assumed_pods.reject(victim.uid, f"preempted by pod {asked.uid}", mark.at_us)

    def settled(self, fact: EffectSettled, at_us: int) -> None:
        """Record the outcome of an eviction."""
        if self.nominations.settled(fact, at_us):
            self.runners.happened({Hint.GONE}, at_us)

    def passed(self, after: int) -> None:
        """A pass took effect: later passes are decided on at least its events."""
        self.touched = {node: at for node, at in self.touched.items() if at > after}

    def elapse(self, at_us: int) -> None:
        """End the unconfirmed shadows, waits past their limit, and nominations without progress."""
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
        """Restore a saved state into a new scheduler. Raises KeyError or ValueError for an invalid one."""
        pods: Mapping[str, Pod] = self._cluster.pods
        if self.reservations is not None:
            self.reservations.begin(reservations)
            pods = ChainMap(self._cluster.pods, self.reservations.known.stand_ins())
        for name, ones in waiting.items():
            self.queues[name].restore(ones, numbers[name], pods)
        for found in assumed:
            self.assumed_pods.keep(found)

    def adopt(self, assumed: Iterable[Assumed]) -> None:
        """Keep the room of binds possibly under way, after a change of the policy."""
        for one in assumed:
            if one.profile not in self.frameworks:
                one = msgspec.structs.replace(one, profile=next(iter(self.frameworks)))
            reads = self.frameworks[one.profile].reads_reservations
            if one.uid not in self._cluster.pods and not reads:
                # Room for reservations is held no more.
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
        """Follow an observed reservation: waiting, placed or ended. Nothing without a profile for reservations."""
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
        """The part of a snapshot for reservations; None without a profile for them."""
        return self.reservations.saved() if self.reservations is not None else None

    def handed_on(self, kept: Iterable[Assumed]) -> SavedReservations | None:
        """The state for another policy, with binds only for the pods of ``kept``."""
        own = self.reservations
        return own.handed_on({one.uid for one in kept}) if own is not None else None

    def _confirmed(self, uid: str, at_us: int) -> None:
        self.assumed_pods.confirmed(uid, at_us)
        for queue in self.queues.values():
            queue.remove(uid)

    def _left(self, uid: str, at_us: int) -> None:
        """A pod ended, or is about to, before its bind: it is bound no more."""
        for queue in self.queues.values():
            queue.remove(uid)
        if self.nominations.give_up(uid):
            self.runners.happened({Hint.GONE}, at_us)
        self.nominations.left(uid, at_us)
        self.assumed_pods.forget(uid, at_us)


def _touches(
    change: Change, assumed: Mapping[str, Assumed], queues: Iterable[Queue]
) -> Iterator[str]:
    """The nodes and claims changed in a field possibly read by a pass."""
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
    """The claims of waiting pods among these, with their namespaces."""
    for key in claims:
        if any(queue.names(key) for queue in queues):
            yield "/".join(key)
