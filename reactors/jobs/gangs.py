"""The PodGroup of a job whose pods start together, or what its pods say instead of one. Pure.

Source: Kubeflow training-operator v1, ``pkg/controller.v1/common/scheduling.go`` and ``control/podgroup_control.go``; docs/jobs.md.
"""

from __future__ import annotations

from bus.events.workloads import GangSpec, ReplicaSpec
from bus.sources.podgroups import KOORDINATOR
from reactors.jobs.shape import Gang, GroupStep, Job

VOLCANO = "volcano"
_HELD = ("", "Pending")


def is_volcano(gang: Gang) -> bool:
    """Whether the scheduler is volcano, in any case of letters."""
    return gang.scheduler.lower() == VOLCANO


def group_step(job: Job, gang: Gang) -> GroupStep:
    """The PodGroup as it should be, and whether its pods have to wait for it."""
    wanted = job.spec.gang or GangSpec()
    members = job.total if wanted.min_available is None else wanted.min_available
    least = wanted.min_resources
    if least is None:
        least = _least(job, gang, members)
    spec: dict[str, object] = {"min_member": members, "min_resources_milli": least}
    if is_volcano(gang):
        queue = (gang.group.queue if gang.group else "") or wanted.queue or "default"
        spec |= {"queue": queue, "priority_class": wanted.priority_class}
    elif wanted.timeout_s is not None:
        spec |= {"schedule_timeout_seconds": wanted.timeout_s}
    is_held = is_volcano(gang) and (gang.group is None or gang.group.phase in _HELD)
    return GroupStep("update" if gang.group else "create", spec, is_held)


def notes(job: Job) -> dict[str, str]:
    """The annotations by which a scheduler starts a job's pods together, without a PodGroup; none where it asks for nothing so."""
    if job.spec.gang is None:
        return {}
    wanted = job.spec.gang.min_available
    # More than there are would never start.
    least = job.total if wanted is None else min(max(wanted, 0), job.total)
    return {f"{KOORDINATOR}name": job.name, f"{KOORDINATOR}min-available": str(least)}


def _least(job: Job, gang: Gang, members: int) -> dict[str, int]:
    """What ``members`` pods request, those of the most important types first."""

    def importance(entry: tuple[str, ReplicaSpec]) -> int:
        return -gang.priorities.get(entry[1].priority_class, 0)

    found: dict[str, int] = {}
    for _, spec in sorted(job.types, key=importance):
        taken = min(spec.count, members)
        members -= taken
        for name, milli in spec.requests.items():
            if taken:
                found[name] = found.get(name, 0) + milli * taken
    return found
