"""Where pods would go: the scheduler's rules on the cluster as the ledger's archive has it. Nothing is bound or recorded."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from bus.kube.watch.labels import LabelPolicy
from deploy.errors import SettingsError
from projections.cluster import ClusterState, Pod
from projections.quota_trees.queries import Select
from reactors.catalogue import REACTORS
from reactors.engine.snapshots import at
from reactors.scheduling.columns import Columns
from reactors.scheduling.explaining import Explanation, explained
from reactors.scheduling.framework import Framework
from reactors.scheduling.manifests import pod_of
from reactors.scheduling.passes import Attempt, Scheduler
from reactors.scheduling.plugins.catalogue import default_profile
from reactors.scheduling.queue import Queued


class Tried(msgspec.Struct, frozen=True):
    """A pod of a file, and what would become of it."""

    pod: Pod
    found: Explanation


def queued(
    state: ClusterState, scheduler: str, *, sequence: int, at_us: int
) -> tuple[list[Attempt], list[Queued]]:
    """(what a pass over all that wait would decide now, the pods that it would leave waiting, in the queue's order)."""
    columns = Columns(state)
    passes = Scheduler(default_profile(scheduler), columns)
    passes.begin(state.pods.values(), at_us)
    return passes.run(sequence, at_us, len(state.pods)), list(passes.queue)


def only_cluster(observed: Iterable[str], configured: str) -> str:
    """The cluster that is meant where none was named: the settings', or the only one in the ledger. Raises SettingsError."""
    found = sorted(observed)
    if not found or configured in found:
        return configured
    if len(found) == 1:
        return found[0]
    raise SettingsError(f"name one of the clusters {', '.join(found)} with --cluster")


def cluster_state(select: Select, cluster: str) -> ClusterState:
    """The cluster as it was observed last."""
    return at(select, REACTORS, cluster).cluster_state


def explained_pods(
    state: ClusterState, uids: Collection[str], scheduler: str, sequence: int
) -> Iterator[tuple[Pod, Explanation]]:
    """What would become now of each of these pods that waits for this scheduler, as if nobody were before it."""
    profile = default_profile(scheduler)
    found = [state.pods[uid] for uid in sorted(uids) if uid in state.pods]
    waiting = [pod for pod in found if profile.takes(pod) and not pod.node and not pod.is_ended]
    if waiting:
        framework = Framework(profile, Columns(state))
        for pod in waiting:
            yield pod, explained(framework, pod, sequence)


def tried(
    state: ClusterState,
    manifests: Sequence[dict[str, Any]],
    *,
    namespace: str,
    labels: LabelPolicy,
    sequence: int,
) -> list[Tried]:
    """Place the pods one after the other; each takes its room from those that follow, also where others had to go for it.

    Raises ObservationError.
    """
    columns = Columns(state)
    framework = Framework(default_profile("check"), columns)
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
        done.append(Tried(pod, found))
    return done
