"""Metrics of training jobs. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from bus.metrics import Metric, Sample
from reactors.engine.replica import Replica
from reactors.jobs import NAME
from reactors.jobs.settings import JobsPolicy
from reactors.jobs.shape import JobStatus
from reactors.jobs.state import JobsState
from reactors.jobs.steps import TrackedJob


def figures(replica: Replica) -> Iterator[Metric]:
    """All of them, as of the newest event."""
    view = replica.states[NAME]
    assert isinstance(view, JobsState)
    states = Counter((one.job.kind, phase(one.job.status)) for one in view.jobs.values())
    yield Metric(
        "bursar_jobs", "gauge", "Training jobs that there are, by kind and state.",
        [Sample(n, {"kind": kind, "state": state}) for (kind, state), n in sorted(states.items())],
    )  # fmt: skip
    yield Metric(
        "bursar_job_steps_total", "counter",
        "Steps of training jobs, decided or seen, by step and by whether the operator took it, too.",
        [
            Sample(count, {"step": step, "result": result})
            for (step, result), count in sorted(view.agreements.counts.items())
        ],
    )  # fmt: skip


def runner(view: JobsState, tracked: TrackedJob, policy: JobsPolicy) -> str:
    """The runner of a job: ``bursar``, ``operator``, or the one named in the job."""
    from reactors.jobs.passes import OPERATOR, run_elsewhere

    rules, manager = policy.rules_in(view.mode), tracked.job.spec.managed_by
    if view.mode == "on" and not run_elsewhere(
        tracked.job, rules, is_elsewhere=tracked.is_elsewhere
    ):
        return "bursar"
    return manager if manager and manager != OPERATOR else "operator"


def runners(replica: Replica) -> dict[str, int]:
    """The number of jobs that have not ended, by runner."""
    view, current = replica.states[NAME], replica.policies.of(NAME)
    assert isinstance(view, JobsState)
    if current is None:
        return {}
    policy = current.policy
    assert isinstance(policy, JobsPolicy)
    open_ = (one for one in view.jobs.values() if not one.job.status.is_finished)
    return dict(sorted(Counter(runner(view, one, policy) for one in open_).items()))


def phase(status: JobStatus) -> str:
    """The newest true condition; ``Pending`` before the first."""
    return next(
        (one.type for one in reversed(status.conditions) if one.status == "True"), "Pending"
    )
