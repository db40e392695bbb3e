"""Metrics of the scheduler. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from bus.clock import SECOND_US
from bus.metrics import Metric, Sample
from reactors.engine.replica import Replica
from reactors.scheduling import NAME
from reactors.scheduling.state import SchedulingState


def figures(replica: Replica) -> Iterator[Metric]:
    """All of them, as of the newest event; none while nothing was ever scheduled."""
    known = replica.states[NAME]
    assert isinstance(known, SchedulingState)
    counts, scheduler = known.counts, known.scheduler
    if scheduler is None and not counts.passes:
        return
    waiting: Counter[tuple[str, str]] = Counter()
    if scheduler is not None:
        for name, queue in scheduler.queues.items():
            waiting.update((name, place) for place in queue.places())
        waiting.update((one.profile, "assumed") for one in scheduler.assumed.values())
    yield Metric(
        "bursar_scheduling_pods_waiting", "gauge",
        "Pods without a node, by profile and state: active, backoff, unschedulable, gated, or assumed (its bind is not confirmed).",
        [
            Sample(count, {"profile": name, "state": state})
            for (name, state), count in sorted(waiting.items())
        ],
    )  # fmt: skip
    yield Metric(
        "bursar_scheduling_passes_total", "counter", "Passes of the scheduler.",
        [Sample(counts.passes)],
    )  # fmt: skip
    yield Metric(
        "bursar_scheduling_decisions_total", "counter", "Pods that a pass tried, shadows included, by what was decided.",
        [Sample(counts.placed, {"result": "placed"}), Sample(counts.refused, {"result": "unschedulable"})],
    )  # fmt: skip
    yield Metric(
        "bursar_scheduling_binds_total", "counter",
        "Decisions that were to be bound, by what became of them: bound, elsewhere, refused, lost, gone, stale or shadow.",
        [Sample(count, {"result": result}) for result, count in sorted(counts.binds.items())],
    )  # fmt: skip
    yield Metric(
        "bursar_scheduling_bind_seconds", "histogram",
        "From the creation of a pod, a stamp of whole seconds, to its observation on the node that was chosen.",
        counts.seconds.samples(),
    )  # fmt: skip
    yield Metric(
        "bursar_scheduling_last_pass_timestamp_seconds", "gauge", "The time of the newest pass; 0 = there was none.",
        [Sample(counts.newest_us // SECOND_US)],
    )  # fmt: skip
