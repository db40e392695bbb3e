"""Placements by the scheduler's rules on the cluster of the ledger's archive. Nothing is bound or recorded."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from bus.kube.watch.labels import LabelPolicy
from deploy.errors import SettingsError
from projections.cluster import ClusterState, Pod
from projections.quota_trees.queries import Select
from reactors.catalogue import REACTORS
from reactors.engine.replica import Replica
from reactors.engine.snapshots import at
from reactors.scheduling import NAME as SCHEDULING
from reactors.scheduling.columns.table import Columns
from reactors.scheduling.cycle.passes import Scheduler
from reactors.scheduling.cycle.trial import attempts
from reactors.scheduling.framework.context import PluginContext
from reactors.scheduling.framework.explaining import Explanation, explained
from reactors.scheduling.framework.runner import Framework
from reactors.scheduling.gangs.state import Gangs
from reactors.scheduling.plugins.catalogue import default_profile
from reactors.scheduling.queueing.hints import Hint
from reactors.scheduling.queueing.queue import Queued
from reactors.scheduling.shape import Nominated
from reactors.scheduling.state import SchedulingState


class TriedPod(msgspec.Struct, frozen=True):
    """A pod of a file, and its predicted placement."""

    pod: Pod
    found: Explanation


class Waits(msgspec.Struct, frozen=True):
    """A pod that waits for a node. ``state``: ``fits`` and ``unschedulable`` are the result of a pass now."""

    pod: Pod
    state: str
    node: str = ""
    reason: str = ""
    help: Collection[str] = ()
    #: The latest time of its next attempt, microseconds UTC; 0 = without bound.
    until_us: int = 0
    attempts: int = 0
    #: Its gang, with the namespace; "" = none.
    gang: str = ""


def queued(replica: Replica, name: str, *, sequence: int, at_us: int) -> list[Waits]:
    """The pods that wait for a scheduler, in the order of its queue: first those with a node, or with one found now."""
    known = replica.states[SCHEDULING]
    assert isinstance(known, SchedulingState)
    state, scheduler = replica.cluster_state, known.scheduler
    if scheduler is None or name not in scheduler.queues:
        scheduler = Scheduler([default_profile(name)], state)
        scheduler.begin(at_us)
    found = [
        Waits(
            scheduler.runners.pod(one.uid),
            "assumed",
            one.node,
            f"waits for {', '.join(one.waits)}" if one.waits else "",
            until_us=one.deadline_us,
            attempts=one.attempts,
        )
        for one in scheduler.assumed.values()
        if one.profile == name
    ]
    due = attempts(scheduler, sequence, at_us, len(state.pods) + 1, preempts=False).get(name, [])
    found += [Waits(one.pod, "fits", one.node) for one in due if one.node]
    tried = {one.pod.uid: one for one in due}
    for one in scheduler.queues[name]:
        attempt = tried.get(one.pod.uid)
        if attempt is None:
            helped = _words(one.helped_by)
            found.append(Waits(one.pod, one.place.value, "", one.reason, helped, one.until_us, one.attempts))  # fmt: skip
        elif not attempt.node:
            helped = _words(scheduler.frameworks[name].helped_by(attempt.refused))
            found.append(Waits(one.pod, "unschedulable", "", attempt.message, helped, one.until_us, one.attempts))  # fmt: skip
    gangs = scheduler.gangs
    return [
        msgspec.structs.replace(one, gang=gang.key) if (gang := gangs.of(one.pod.uid)) else one
        for one in found
    ]


def known_gangs(replica: Replica, at_us: int) -> Gangs:
    """The gangs of the pods that Bursar places. If it places none: the gangs by the default profile."""
    own = replica.states[SCHEDULING]
    assert isinstance(own, SchedulingState)
    if own.scheduler is not None:
        return own.scheduler.gangs
    scheduler = Scheduler([default_profile("bursar")], replica.cluster_state, is_shadow=True)
    scheduler.begin(at_us)
    return scheduler.gangs


def _words(hints: Collection[Hint]) -> list[str]:
    return sorted(hint.value for hint in hints)


def only_cluster(observed: Iterable[str], configured: str) -> str:
    """The default cluster: the settings', or the only one in the ledger. Raises SettingsError."""
    found = sorted(observed)
    if not found or configured in found:
        return configured
    if len(found) == 1:
        return found[0]
    raise SettingsError(f"name one of the clusters {', '.join(found)} with --cluster")


def known(select: Select, cluster: str) -> Replica:
    """The reactors' state of the cluster after the newest event in the ledger."""
    return at(select, REACTORS, cluster)


def reads_quotas(replica: Replica) -> bool:
    """Whether pods start by their quotas, as a profile of the policy in force says."""
    own = replica.states[SCHEDULING]
    assert isinstance(own, SchedulingState)
    return own.quotas is not None


def explained_pods(
    replica: Replica, uids: Collection[str], name: str, sequence: int
) -> Iterator[tuple[Pod, Explanation, Queued | None]]:
    """The result of a pass now for each of these waiting pods, with an empty queue before it, and its place in the queue.

    Covers pods that Bursar places, by their profile. If it places none: those with the scheduler name ``name``.
    """
    own, state = replica.states[SCHEDULING], replica.cluster_state
    assert isinstance(own, SchedulingState)
    found = [state.pods[uid] for uid in sorted(uids) if uid in state.pods]
    if own.scheduler is not None:
        if own.scheduler.reservations is not None:
            uids = sorted(uid for uid in uids if uid in state.reservations)
            found += map(own.scheduler.runners.pod, uids)
        for pod in found:
            profile = own.scheduler.runners.profile_of(pod)
            one = own.scheduler.queues[profile].get(pod.uid) if profile else None
            if one is not None:
                yield pod, explained(own.scheduler.frameworks[profile], pod, sequence), one
        return
    default = default_profile(name)
    waiting = [pod for pod in found if default.takes(pod) and not pod.node and not pod.is_ended]
    if waiting:
        framework = Framework(default, PluginContext(Columns(state)))
        for pod in waiting:
            yield pod, explained(framework, pod, sequence), None


def nomination(replica: Replica, uid: str) -> Nominated | None:
    """The node that a pod is nominated to, and its victims; None without a nomination."""
    own = replica.states[SCHEDULING]
    assert isinstance(own, SchedulingState)
    return own.scheduler.nominations.all.get(uid) if own.scheduler is not None else None


def tried(
    state: ClusterState,
    manifests: Sequence[dict[str, Any]],
    *,
    namespace: str,
    labels: LabelPolicy,
    sequence: int,
) -> list[TriedPod]:
    """Place the pods one after the other. Each takes its room from those that follow, also after preemption.

    Raises ObservationError.
    """
    # Manifests are read like a source's pods; questions about observed pods do not need this import.
    from reactors.scheduling.diagnosis.manifests import pod_of

    columns = Columns(state)
    framework = Framework(default_profile("check"), PluginContext(columns))
    done = []
    for number, manifest in enumerate(manifests, 1):
        pod = pod_of(manifest, number, namespace, state, labels)
        found = explained(framework, pod, sequence)
        room = found.preemption
        if room is not None and room.node:
            for victim in room.victims:
                columns.lift(victim.uid)
            columns.place(pod, room.node)
        elif found.node:
            columns.place(pod, found.node)
        done.append(TriedPod(pod, found))
    return done
