"""Metrics of queues. Pure. A wait counts from the creation of a workload, not from its first observation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import msgspec

from bus.metrics import Metric, Sample
from reactors.queue.state import QueueState


def figures(lines: QueueState) -> Iterator[Metric]:
    """All metrics, as of the last read event; counters cover the whole history."""
    waiting: Counter[str] = Counter()
    for found, where in lines.held():
        if where is not None and not lines.is_released(found.uid):
            waiting[where.quota] += 1
    yield Metric(
        "bursar_queue_length", "gauge", "Workloads that wait for a quota.",
        [Sample(count, {"quota": quota}) for quota, count in sorted(waiting.items())],
    )  # fmt: skip
    waits = sorted(lines.waits.items())
    meaning = "From the creation of a workload to its first release."
    yield Metric(
        "bursar_queue_wait_seconds", "histogram", meaning,
        [
            msgspec.structs.replace(sample, labels={"quota": quota, **sample.labels})
            for quota, one in waits
            for sample in one.samples()
        ],
    )  # fmt: skip
    yield Metric(
        "bursar_queue_returned_total", "counter", "Workloads that had to wait again, as they passed the head.",
        [Sample(lines.returned)],
    )  # fmt: skip
