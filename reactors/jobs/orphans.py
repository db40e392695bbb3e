"""Orphans: pods and services with a job's labels and no controller, and the job's choice among them. Pure.

A job takes one pod for each of its empty slots. It does so if Bursar runs it, until it ends, and not while it is
suspended. Pods that have ended, pods in deletion, and second pods for one slot are never taken. Pods made outside Bursar are
never deleted for a job. Two jobs of one name take nothing.

Source: Kubeflow training-operator v1, ``pkg/controller.v1/control/controller_ref_manager.go``; docs/jobs.md.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Mapping

from projections.cluster import Change, ClusterState, Pod, Service
from reactors.jobs.shape import INDEX, JOB, KINDS, TYPE, Job
from reactors.jobs.steps import ADOPT, RELEASE, TrackedJob, has_place, service_key

_LIVE = ("Pending", "Running")
#: Users may give any number of pods the labels of a job.
MOST_LOOKED_AT = 100


class Orphans:
    """Uids of pods without a controller, in order, by the namespace and the name of the job in their labels."""

    def __init__(self, pods: Iterable[Pod] = ()) -> None:
        self._of: dict[tuple[str, str], list[str]] = {}
        for pod in pods:
            self.follow(None, pod)

    def follow(self, before: Pod | None, after: Pod | None) -> None:
        """A pod changed: a look-up for each, however many there are."""
        was, now = _place(before), _place(after)
        if was == now:
            return
        if before is not None and was is not None:
            here = self._of[was]
            del here[bisect_left(here, before.uid)]
            if not here:
                del self._of[was]
        if after is not None and now is not None:
            insort(self._of.setdefault(now, []), after.uid)

    def claimed(
        self,
        state: ClusterState,
        jobs: Mapping[str, TrackedJob],
        before: Pod | None,
        after: Pod | None,
    ) -> set[str]:
        """A pod changed: a job may take it, has taken it, or has let it go. Uids of the jobs."""
        self.follow(before, after)
        touched = set[str]()
        for pod in (before, after):
            if pod is None or _place(pod) is None:
                continue
            tracked = named(state, jobs, pod.namespace, pod.labels[JOB])
            if tracked is not None:
                touched.add(tracked.job.uid)
                if after is None or after.owner is not None:
                    tracked.steps.pop(f"{ADOPT}/{pod.uid}", None)
        if before is None or (after is not None and after.owner == before.owner):
            return touched
        if before.owner is not None and before.owner.uid in jobs:
            touched.add(before.owner.uid)
            jobs[before.owner.uid].steps.pop(f"{RELEASE}/{before.uid}", None)
        if after is not None and after.owner is not None and after.owner.uid in jobs:
            jobs[after.owner.uid].appeared(after)
        return touched

    def of(self, state: ClusterState, job: Job) -> list[Pod]:
        """Those with a job's labels, the oldest first; of more than :data:`MOST_LOOKED_AT` the first ones by uid."""
        uids = self._of.get((job.namespace, job.name), [])
        pods = [state.pods[uid] for uid in uids[:MOST_LOOKED_AT]]
        chosen = (pod for pod in pods if job.selects(pod.labels))
        return sorted(chosen, key=lambda one: (one.started_us, one.uid))


def _place(pod: Pod | None) -> tuple[str, str] | None:
    if pod is None or pod.owner is not None or not (name := pod.labels.get(JOB)):
        return None
    return pod.namespace, name


def named(
    state: ClusterState, jobs: Mapping[str, TrackedJob], namespace: str, name: str
) -> TrackedJob | None:
    """The training job of this name; None for none, and where several kinds have one."""
    uids = (state.named(kind, namespace, name) for kind in KINDS)
    found = [jobs[uid] for uid in uids if uid in jobs]
    return found[0] if len(found) == 1 else None


def takes_any(job: Job) -> bool:
    """Whether a job takes anything: not once it has ended, is suspended or is being deleted."""
    return not (job.status.is_finished or job.spec.suspend or job.is_deleting or job.is_too_large)


def takes(state: ClusterState, jobs: Mapping[str, TrackedJob], tracked: TrackedJob) -> bool:
    """Whether a job takes objects with its labels: yes, unless another job has its name, too."""
    job = tracked.job
    return takes_any(job) and named(state, jobs, job.namespace, job.name) is tracked


def service_seen(state: ClusterState, jobs: Mapping[str, TrackedJob], change: Change) -> set[str]:
    """A service of a job changed, or one that it may take. The job's uid."""
    found = change.after or change.before
    if not isinstance(found, Service):
        return set()
    if found.owner is None:
        tracked = named(state, jobs, found.namespace, found.job)
    else:
        tracked = jobs.get(found.owner.uid)
    if tracked is None or found.namespace != tracked.job.namespace:
        return set()
    if change.after is None or found.owner is not None:
        tracked.steps.pop(f"{ADOPT}/{found.uid}", None)
    if change.after is not None and found.owner is not None:
        tracked.steps.pop(service_key(found.name), None)
    return {tracked.job.uid}


def for_free_slots(
    found: Iterable[Pod], job: Job, own: Iterable[Pod], left: Collection[str]
) -> list[Pod]:
    """One of the pods ``found`` for each slot in which the job's ``own`` pods are not; none whose uid is in ``left``."""
    taken = {(pod.labels.get(TYPE, ""), pod.labels.get(INDEX, "")) for pod in own}
    chosen = []
    for pod in found:
        slot = (pod.labels.get(TYPE, ""), pod.labels.get(INDEX, ""))
        is_live = pod.phase in _LIVE and not pod.is_terminating
        if is_live and pod.uid not in left and slot not in taken and has_place(job, *slot):
            taken.add(slot)
            chosen.append(pod)
    return chosen


def orphaned_service(
    state: ClusterState, job: Job, name: str, left: Collection[str]
) -> Service | None:
    """The service of this name with the job's label and without a controller; None if its uid is in ``left``."""
    found = state.services.get(state.named(Service.kind, job.namespace, name))
    if found is None or found.owner is not None or found.is_terminating or found.uid in left:
        return None
    return found if found.job == job.name else None
