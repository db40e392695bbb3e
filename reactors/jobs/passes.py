"""One pass over a job: its needs by its observed state. Pure. Each rule is in a module of its own.

1. Some jobs are skipped: those with another runner, in deletion, with invalid pod names, or with decided steps not observed
   yet.
2. A finished job is cleaned up by its policy, and deleted once its time is over.
3. A suspended job loses its pods and services, whatever that policy is.
4. A job past its limits fails, and loses them, too.
5. Otherwise each type gets its missing pods and services, unless the job is
too large. It loses surplus ones, and failed pods are replaced.

Source: Kubeflow training-operator v1, ``pkg/controller.v1/common/job.go``; docs/jobs.md.
"""

from __future__ import annotations

import msgspec

from bus.clock import SECOND_US
from bus.events.workloads import ReplicaCounts
from reactors.jobs.gangs import group_step
from reactors.jobs.limits import deadline_left_us, is_past_backoff, ttl_left_us
from reactors.jobs.ownership import claim
from reactors.jobs.rendezvous import warnings
from reactors.jobs.replicas import evaluated, services, unnameable
from reactors.jobs.shape import (
    LIMIT_REACHED,
    GroupStep,
    Job,
    JobPass,
    Removal,
    Rules,
    SeenJob,
    SeenPod,
    SeenService,
    Timer,
    may_look,
)
from reactors.jobs.success import StatusDraft, conclude

#: The name of the operator's jobs, and Bursar's name in ``managedBy``.
OPERATOR, BURSAR = "kubeflow.org/training-operator", "bursar.io/jobs"
_RUNS = ("Running", "Pending")


def reconciled(job: Job, seen: SeenJob, now_us: int, rules: Rules) -> JobPass:
    """The result of one pass over ``job``."""
    skipped = _skipped(job, seen, now_us, rules)
    if skipped:
        return JobPass(skipped=skipped, status=job.status)
    one = _Reconciliation(job, seen, now_us, rules)
    if job.status.is_finished:
        one.clean_up()
    elif job.spec.suspend:
        one.suspend()
    else:
        one.go_on()
    one.found.status = one.draft.status
    return one.found


def _skipped(job: Job, seen: SeenJob, now_us: int, rules: Rules) -> str:
    elsewhere = run_elsewhere(job, rules, is_elsewhere=seen.is_elsewhere)
    if elsewhere:
        return elsewhere
    if job.is_deleting:
        return "deleting"
    unnamed = unnameable(job)
    if unnamed:
        return unnamed
    types = (type for type, _ in job.types)
    return "" if may_look(types, seen.outstanding, now_us, rules) else "outstanding"


def run_elsewhere(job: Job, rules: Rules, *, is_elsewhere: bool) -> str:
    """The reason why another program runs a job; "" = none does. ``is_elsewhere``: another program made a pod of it."""
    manager = job.spec.managed_by
    if not rules.runs:
        is_operators = manager in (None, OPERATOR) or not (rules.is_v1 or manager)
        return "" if is_operators else "managed_elsewhere"
    if manager != BURSAR and (manager or rules.runs != "all"):
        return "managed_elsewhere" if manager else "not_marked"
    return "operator_present" if is_elsewhere else ""


class _Reconciliation:
    """A pass while it is made."""

    def __init__(self, job: Job, seen: SeenJob, now_us: int, rules: Rules) -> None:
        self.job, self.seen, self.at_us, self.rules = job, seen, now_us, rules
        self.found = JobPass()
        self.draft = StatusDraft(job, now_us)
        self.pods = [one for one in seen.pods if self._is_ours(one, "pod")]
        self.services = [one for one in seen.services if self._is_ours(one, "service")]

    def _is_ours(self, one: SeenPod | SeenService, kind: str) -> bool:
        # The operator lists only objects with its labels, and never adopts a pod.
        if self.rules.is_v1 and (not one.is_selected or (kind == "pod" and one.owner == "none")):
            return False
        found = claim(
            one.owner,
            is_selected=one.is_selected,
            is_deleting=one.is_deleting,
            is_job_deleting=self.job.is_deleting,
        )
        if found == "adopt":
            self.found.adopted.append(f"{kind}:{one.name}")
        elif found == "release":
            self.found.released.append(f"{kind}:{one.name}")
        return found in ("ours", "adopt")

    def clean_up(self) -> None:
        """A finished job."""
        if self._is_over_limits():
            # As at its failure: pods not deleted then would run for ever.
            self._remove(LIMIT_REACHED, "All")
        else:
            self._remove("finished", self.job.spec.clean_pod_policy or "None")
        self._end_group()
        self._expire()
        left_us = ttl_left_us(self.job.spec.ttl_s, self.draft.status.completion_us, self.at_us)
        self.found.again_us = left_us
        if self.draft.status.is_true("Succeeded"):
            counts = self.draft.status.counts
            folded = {
                type: ReplicaCounts(0, one.succeeded + one.active, one.failed)
                for type, one in counts.items()
            }
            self.draft.replace(counts=folded)

    def suspend(self) -> None:
        """A suspended job."""
        self._remove("suspended", "All")
        self._end_group()
        counts = self.draft.status.counts
        idle = {type: msgspec.structs.replace(one, active=0) for type, one in counts.items()}
        self.draft.replace(counts=idle)
        if self.draft.status.is_true("Running"):
            self.draft.set("Running", "False", "Suspended")
        self.draft.set("Suspended")
        self.found.events.append(f"Normal {self.job.kind}Suspended")

    def go_on(self) -> None:
        """A pass over a job that should run."""
        if self.rules.runs and not self.draft.status.conditions:
            self.draft.set("Created")
        if self.draft.status.is_true("Suspended"):
            self.draft.set("Suspended", "False", "Resumed")
            self.draft.replace(start_us=self.at_us)
            self.found.events.append(f"Normal {self.job.kind}Resumed")
        started = msgspec.structs.replace(self.job, status=self.draft.status)
        left_us = deadline_left_us(started, self.at_us)
        if (left_us is not None and left_us <= 0) or is_past_backoff(
            started, self.pods, self.seen, self.rules
        ):
            self._fail()
            return
        if self.seen.gang is not None and (self.job.total or self.rules.is_v1):
            self.found.group = group_step(self.job, self.seen.gang, self.rules)
            if self.found.group.is_held and self.rules.is_v1:
                return
        self._replicas()

    def _is_over_limits(self) -> bool:
        """Whether a job ended by its limits. The operator does not check it."""
        status = self.job.status
        if self.rules.is_v1 or not status.is_true("Failed") or status.completion_us is None:
            return False
        if self.seen.is_over_limits:
            # A new count could be lower: deleted pods are not in it.
            return True
        left_us = deadline_left_us(self.job, status.completion_us)
        return (left_us is not None and left_us <= 0) or is_past_backoff(
            self.job, self.pods, self.seen, self.rules
        )

    def _fail(self) -> None:
        self.found.events.append(f"Normal {self.job.kind}Failed")
        self._remove(LIMIT_REACHED, "All")
        self._end_group()
        if self.draft.status.completion_us is None:
            self.draft.replace(completion_us=self.at_us)
        self._expire()
        self.draft.set("Failed")

    def _replicas(self) -> None:
        job, found, kind = self.job, self.found, self.job.kind
        found.skipped = "too_large" if job.is_too_large else ""
        is_held = found.group is not None and found.group.is_held
        types, counts = {}, dict(self.draft.status.counts)
        for type, spec in job.types:
            those = types[type] = evaluated(job, type, spec, self.pods, self.rules)
            counts[type] = those.counts
            missing = [] if is_held else those.missing
            found.creates += missing
            if len(missing) < len(those.missing):
                found.skipped = found.skipped or "gang_waits"
            warned = [f"Warning {one}" for one in warnings(spec, self.seen.gang)]
            found.events += warned * len(missing)
            found.removals += [Removal(one, "out_of_range") for one in those.surplus]
            found.removals += [Removal(one, "doubled") for one in those.doubled]
            found.removals += [Removal(one, "failed_retryable") for one in those.failed]
            found.events += ["Normal ExitedWithCode"] * len(those.ended)
            found.events += [f"Warning {kind}Restarting"] * len(those.failed)
            found.events += [f"Warning {kind}Failed"] * len(those.is_lost)
            for condition in those.conditions:
                if condition == "Restarting" or self.rules.is_v1:
                    self.draft.set(condition)
            lacking, surplus = services(job, type, spec.count, self.services, self.rules)
            # The service of a waiting pod is made with it.
            waiting = {one.name for one in those.missing} if is_held else set[str]()
            found.service_creates += [one for one in lacking if one.name not in waiting]
            found.service_removals += surplus
        self.draft.replace(counts=counts)
        if self.draft.status.start_us is None:
            self.draft.replace(start_us=self.at_us)
            if job.spec.deadline_s is not None:
                found.timers.append(Timer("deadline", job.spec.deadline_s * SECOND_US))
        found.events += conclude(self.draft, job, types, self.pods, self.rules)
        if self.draft.status.is_finished:
            completion_us = self.draft.status.completion_us
            found.again_us = ttl_left_us(job.spec.ttl_s, completion_us, self.at_us)

    def _remove(self, reason: str, policy: str) -> None:
        """Delete pods, and the service of each."""
        for one in self.pods:
            if policy == "None" or (policy == "Running" and one.phase not in _RUNS):
                continue
            self.found.removals.append(Removal(one, reason))
            self.found.service_removals.append(one.name)

    def _end_group(self) -> None:
        gang = self.seen.gang
        if gang is not None and (self.rules.is_v1 or gang.group is not None):
            self.found.group = GroupStep("delete", uid=gang.group.uid if gang.group else "")
            self.found.events += ["Normal JobTerminated", "Normal SuccessfulDeletePodGroup"]

    def _expire(self) -> None:
        """Delete the job once its time is over."""
        if self.job.spec.ttl_s is None:
            return
        if self.draft.status.completion_us is None and not self.rules.is_v1:
            self.draft.replace(completion_us=self.at_us)
        left_us = ttl_left_us(self.job.spec.ttl_s, self.draft.status.completion_us, self.at_us)
        if left_us is None:
            self.found.error = "job completion time is nil, cannot cleanup"
        elif left_us < 0 or (left_us == 0 and not self.rules.is_v1):
            self.found.is_deleted = True
            self.found.events.append("Normal SuccessfulDeleteJob")
        else:
            self.found.timers.append(Timer("ttl", left_us))
