"""The status of a job, once its pods are counted. Pure.

- *TFJob*: with a Chief or Master that type alone decides, else the workers: all of them, or worker 0 if the success policy
  is not ``AllWorkers``. A failed pod of any type without a replacement fails the job, unless workers may come and go.
- *Other kinds*: the master decides, else all workers, of an elastic PyTorchJob any one. After the workers' success, the
  operator still counts failures. It fails an XGBoostJob with any failed pod, except under the policy of exit codes.

Under the operator's rules an earlier condition ``Restarting`` hides every failure, and a job with a successful chief
may fail, too. Under Bursar's own rules a failure counts unless its own pod is replaced, and success is the end.

Source: Kubeflow training-operator v1, ``tensorflow/tfjob_controller.go``, ``pytorch/pytorchjob_controller.go``,
``xgboost/xgboostjob_controller.go``; docs/jobs.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from bus.events.workloads import WorkloadCondition
from reactors.jobs.conditions import with_condition
from reactors.jobs.replicas import EXIT_CODE, Replicas
from reactors.jobs.shape import Job, Rules, SeenPod


class StatusDraft:
    """A status while a pass writes it."""

    def __init__(self, job: Job, now_us: int) -> None:
        self.kind, self.at_us = job.kind, now_us
        self.status = job.status

    def set(self, type: str, status: str = "True", reason: str = "") -> None:
        """Set a condition. ``reason``: the suffix after the kind, else the type."""
        new = WorkloadCondition(type, status, f"{self.kind}{reason or type}")
        self.replace(conditions=with_condition(self.status.conditions, new))

    def replace(self, **fields: object) -> None:
        """Change fields."""
        self.status = msgspec.structs.replace(self.status, **fields)

    def end(self, type: str) -> None:
        """The job ended now, unless it did before."""
        if self.status.completion_us is None:
            self.replace(completion_us=self.at_us)
        self.set(type)


def is_worker0_done(workers: Sequence[SeenPod] | None) -> bool:
    """Whether worker 0 ended well; also where a job has no workers at all (None)."""
    if workers is None:
        return True
    return any(
        one.index == "0" and one.phase == "Succeeded" and one.exit_code == 0 for one in workers
    )


def conclude(
    draft: StatusDraft, job: Job, found: Mapping[str, Replicas], pods: Sequence[SeenPod],
    rules: Rules,
) -> list[str]:  # fmt: skip
    """Write the status from the counts; the events beside."""
    if job.kind == "TFJob":
        return _tensorflow(draft, job, found, pods, rules)
    return _operated(draft, job, found) if rules.is_v1 else _trained(draft, job, found)


def _tensorflow(
    draft: StatusDraft, job: Job, found: Mapping[str, Replicas], pods: Sequence[SeenPod],
    rules: Rules,
) -> list[str]:  # fmt: skip
    events = []
    was_restarting = any(one.type == "Restarting" for one in draft.status.conditions)
    workers = None
    if "Worker" in job.spec.replicas:
        workers = [one for one in pods if one.type == "worker"]
    for type, spec in job.types:
        counts = found[type].counts
        is_all = counts.succeeded == spec.count and (rules.is_v1 or spec.count > 0)
        if type in job.rules.leaders:
            if counts.active:
                draft.set("Running")
            is_success = is_all
        elif type == "Worker" and not job.leader:
            is_first = not job.spec.success_policy and is_worker0_done(workers)
            is_success = is_all or is_first
            if counts.active and not is_success:
                draft.set("Running")
        else:
            is_success = False
        if is_success:
            events.append(f"Normal {job.kind}Succeeded")
            draft.end("Succeeded")
        if rules.is_v1:
            events += _failures(draft, job, found[type], was_restarting, rules)
    if not rules.is_v1:
        for type, _ in job.types:
            events += _failures(draft, job, found[type], was_restarting, rules)
    return events


def _failures(
    draft: StatusDraft, job: Job, found: Replicas, was_restarting: bool, rules: Rules
) -> list[str]:
    is_replaced = bool(found.failed)
    if rules.is_v1:
        if not found.counts.failed:
            return []
        is_hidden = was_restarting
    else:
        lasting = found.counts.failed - len(found.failed)
        if draft.status.is_true("Succeeded") or not (lasting or is_replaced):
            return []
        is_hidden = not lasting
    if is_hidden:
        draft.set("Restarting")
        return []
    if found.type == "Worker" and job.spec.is_dynamic:
        return []
    draft.end("Failed")
    return [f"Normal {job.kind}Failed"]


def _trained(draft: StatusDraft, job: Job, found: Mapping[str, Replicas]) -> list[str]:
    for type, spec in job.types:
        counts = found[type].counts
        is_success = 0 < spec.count == counts.succeeded
        if type == "Worker" and not job.leader:
            is_success = is_success or (job.spec.elastic is not None and counts.succeeded > 0)
        if type == job.leader or not job.leader:
            if is_success:
                draft.end("Succeeded")
                return [f"Normal {job.kind}Succeeded"]
            if counts.active:
                draft.set("Running")
        if counts.failed and spec.count > counts.succeeded + counts.active:
            if job.policy(spec) == "Never" or found[type].is_lost:
                draft.end("Failed")
                return [f"Normal {job.kind}Failed"]
            draft.set("Restarting")
    return []


def _operated(draft: StatusDraft, job: Job, found: Mapping[str, Replicas]) -> list[str]:
    """As the operator concludes it."""
    is_strict, events = job.rules.is_strict, list[str]()
    for type, spec in job.types:
        counts = found[type].counts
        is_success = counts.succeeded == spec.count
        is_elastic = job.spec.elastic is not None and counts.succeeded > 0
        if type == job.leader:
            if counts.active or (is_strict and is_success):
                draft.set("Running")
            if is_success:
                draft.end("Succeeded")
                return [*events, f"Normal {job.kind}Succeeded"]
        elif type == "Worker" and not job.leader and not is_strict:
            if is_success or is_elastic:
                draft.end("Succeeded")
                events.append(f"Normal {job.kind}Succeeded")
            elif counts.active:
                draft.set("Running")
        if not counts.failed or not (is_strict or spec.count > counts.succeeded + counts.active):
            continue
        policy = job.policy(spec)
        if is_strict:
            draft.set("Running")
        if policy == EXIT_CODE if is_strict else policy != "Never":
            draft.set("Restarting")
        else:
            draft.end("Failed")
            events.append(f"Normal {job.kind}Failed")
    return events
