"""The PodGroup of a job with pods that start together. Pure.

Source: Kubeflow training-operator v1, ``pkg/controller.v1/common/scheduling.go`` and ``control/podgroup_control.go``; docs/jobs.md.
"""

from __future__ import annotations

from bus.events.pods import NATIVE
from bus.events.workloads import GangSpec, ReplicaSpec
from reactors.jobs.shape import GangScheduler, GroupStep, Job, Rules, api_of, is_volcano

_HELD = ("", "Pending")


def group_step(job: Job, gang: GangScheduler, rules: Rules) -> GroupStep:
    """The wanted PodGroup, and whether its pods have to wait for it.

    The operator makes the pods at the same time, except for volcano. Bursar makes none before the PodGroup was
    observed: a scheduler without it may place each of them alone.
    """
    wanted = job.spec.gang or GangSpec()
    members = job.total if wanted.min_available is None else wanted.min_available
    if not rules.is_v1:
        # More than there are would never start.
        members = min(max(members, 1), job.total)
    least = wanted.min_resources
    if least is None:
        least = _least(job, gang, members)
    spec: dict[str, object] = {"min_member": members, "min_resources_milli": least}
    if is_volcano(gang):
        queue = (gang.group.queue if gang.group else "") or wanted.queue or "default"
        spec |= {"queue": queue, "priority_class": wanted.priority_class}
    elif wanted.timeout_s is not None:
        spec |= {"schedule_timeout_seconds": wanted.timeout_s}
    if gang.group is None:
        return GroupStep("create", spec, is_volcano(gang) or not rules.is_v1)
    is_held = is_volcano(gang) and gang.group.phase in _HELD
    # Kubernetes' own cannot be changed.
    is_kept = not rules.is_v1 and (gang.group.least == members or api_of(gang) == NATIVE)
    return GroupStep("keep" if is_kept else "update", spec, is_held, gang.group.uid)


def _least(job: Job, gang: GangScheduler, members: int) -> dict[str, int]:
    """The requests of ``members`` pods, the most important types first."""

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
