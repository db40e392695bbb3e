"""The input of a pass: a job's pods and services in the state of the cluster. Pure.

Source: docs/jobs.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import msgspec

from projections.cluster import Change, ClusterState, Pod, Service
from projections.cluster.pod_terms import PodGroup
from reactors.jobs.orphans import Orphans, for_free_slots, orphaned_service
from reactors.jobs.replicas import replica_name
from reactors.jobs.shape import (
    INDEX,
    TYPE,
    GangScheduler,
    Job,
    SeenPod,
    SeenPodGroup,
    SeenService,
    api_of,
)
from reactors.jobs.steps import END_GROUP, GROUP, TrackedJob, attempt_at, is_of


class PodEnd(msgspec.Struct, frozen=True):
    """Facts about a job's pod beyond the state of the cluster."""

    exits: dict[str, int]
    restarts: int


def job_pods(state: ClusterState, job: Job) -> list[Pod]:
    """The pods controlled by the job."""
    found = (state.pods.get(one) for one in sorted(state.index.owned[job.uid]))
    return [pod for pod in found if pod is not None and is_of(pod, job)]


def around(
    state: ClusterState, tracked: TrackedJob, ends: Mapping[str, PodEnd], orphans: Orphans | None
) -> tuple[tuple[SeenPod, ...], tuple[SeenService, ...]]:
    """The pods and services of a job, and those of ``orphans`` that it takes; None = it takes nothing."""
    job, left = tracked.job, tracked.left
    pods = job_pods(state, job)
    if orphans is not None:
        pods += for_free_slots(orphans.of(state, job), job, pods, left)

    def taken(name: str) -> Service | None:
        return orphaned_service(state, job, name, left) if orphans is not None else None

    return (
        tuple(seen_pod(one, job, ends.get(one.uid)) for one in pods),
        tuple(job_services(state, job, taken)),
    )


def seen_pod(pod: Pod, job: Job, end: PodEnd | None) -> SeenPod:
    """A pod of a job, or one that it may take, as input of a pass."""
    return SeenPod(
        pod.name, pod.uid, pod.labels.get(TYPE, ""), pod.labels.get(INDEX, ""), pod.phase,
        pod.is_terminating, end.restarts if end else 0,
        end.exits.get(job.rules.container) if end else None,
        owner="self" if pod.owner is not None else "none",
        is_selected=job.selects(pod.labels), node=pod.node, attempt=attempt_at(pod, job)[1],
    )  # fmt: skip


def job_services(
    state: ClusterState, job: Job, takes: Callable[[str], Service | None]
) -> Iterator[SeenService]:
    """Services with the names of the job's slots: the job's own, else the result of ``takes`` for that name. Empty for a job
    that is too large.
    """
    for type, spec in () if job.is_too_large else job.types:
        for index in range(spec.count):
            name = replica_name(job.name, type, index)
            found = service_of(state, job, name) or takes(name)
            if found is not None:
                yield SeenService(
                    found.name, found.type, found.index, found.is_terminating,
                    owner="self" if found.owner is not None else "none",
                    is_selected=found.job == job.name,
                )  # fmt: skip


def service_of(state: ClusterState, job: Job, name: str) -> Service | None:
    """The service of this name with the job as its controller."""
    found = state.services.get(state.named(Service.kind, job.namespace, name))
    is_own = found is not None and found.owner is not None and found.owner.uid == job.uid
    return found if is_own else None


def gang_of(state: ClusterState, job: Job, scheduler: str) -> GangScheduler:
    """The job's PodGroup in the API of the scheduler; one with another controller does not count."""
    gang = GangScheduler(scheduler, None, {one.name: one.value for one in state.current_classes()})
    found = state.pod_groups.get(state.named(api_of(gang), job.namespace, job.name))
    if found is None or found.owner is None or found.owner.uid != job.uid:
        return gang
    group = SeenPodGroup(found.phase, found.queue, found.uid, found.least)
    return msgspec.structs.replace(gang, group=group)


def group_seen(jobs: Mapping[str, TrackedJob], change: Change) -> set[str]:
    """Fold a changed PodGroup: its decided step is observed. Uids of the jobs."""
    touched = set[str]()
    for row in (change.before, change.after):
        tracked = jobs.get(row.owner.uid) if isinstance(row, PodGroup) and row.owner else None
        # Users can write any owner into a PodGroup.
        if tracked is None or not _is_named_as(row, tracked.job):
            continue
        touched.add(tracked.job.uid)
        tracked.steps.pop(GROUP, None)
        ending = tracked.steps.get(END_GROUP)
        if change.after is None and ending is not None and ending.name == change.uid:
            del tracked.steps[END_GROUP]
    return touched


def _is_named_as(row: object, job: Job) -> bool:
    return isinstance(row, PodGroup) and (row.namespace, row.name) == (job.namespace, job.name)
