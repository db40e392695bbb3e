"""Metrics of training jobs. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from bus.metrics import Metric, Sample
from reactors.engine.replica import Replica
from reactors.jobs import NAME
from reactors.jobs.shape import Status
from reactors.jobs.state import JobsState


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


def phase(status: Status) -> str:
    """The newest condition that holds; ``Pending`` before the first."""
    return next(
        (one.type for one in reversed(status.conditions) if one.status == "True"), "Pending"
    )
