"""The limits of a job: the number of its failures, and its run time. Pure.

The operator counts restarts of containers in running pods alone. A replaced pod starts from zero, so a job with
replacement by exit code never reaches its limit. Under Bursar's own rules replaced pods count, too.

Source: Kubeflow training-operator v1, ``pkg/controller.v1/common/job.go``; docs/jobs.md.
"""

from __future__ import annotations

from collections.abc import Sequence

from bus.clock import SECOND_US
from reactors.jobs.shape import Job, Rules, SeenJob, SeenPod


def is_past_backoff(job: Job, pods: Sequence[SeenPod], seen: SeenJob, rules: Rules) -> bool:
    """Whether it failed too often."""
    limit = job.spec.backoff_limit
    if limit is None:
        return False
    policies = {type.lower(): job.policy(spec) for type, spec in job.types}
    restarts = sum(
        one.restarts
        for one in pods
        if one.phase == "Running" and policies.get(one.type, "Never") != "Never"
    )
    if not rules.is_v1:
        restarts += seen.replaced
    if restarts >= max(limit, 1):
        return True
    # With a limit of 0, the first new failure is already one too many.
    failed = sum(one.phase == "Failed" for one in pods)
    before = sum(one.failed for one in job.status.counts.values())
    active = sum(one.phase not in ("Succeeded", "Failed") and not one.is_deleting for one in pods)
    return failed > before and active != job.total and limit < 1


def deadline_left_us(job: Job, now_us: int) -> int | None:
    """Until its deadline; None where it has none, or did not start."""
    start_us, deadline_s = job.status.start_us, job.spec.deadline_s
    if start_us is None or deadline_s is None:
        return None
    return start_us + deadline_s * SECOND_US - now_us


def ttl_left_us(ttl_s: int | None, completion_us: int | None, now_us: int) -> int | None:
    """Until it is deleted; None where it stays, or its end is not known."""
    if ttl_s is None or completion_us is None:
        return None
    return completion_us + ttl_s * SECOND_US - now_us
