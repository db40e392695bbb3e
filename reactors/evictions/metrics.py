"""Metrics of evictions. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from bus.metrics import Metric, Sample
from reactors.engine.replica import Replica
from reactors.evictions import NAME
from reactors.evictions.state import EvictionState


def figures(replica: Replica) -> Iterator[Metric]:
    """All of them, over the whole history."""
    view = replica.states[NAME]
    assert isinstance(view, EvictionState)
    yield Metric(
        "bursar_evictions_total", "counter", "Evictions that were decided, by reason and by what became of them.",
        [
            Sample(count, {"reason": reason, "result": result})
            for (reason, result), count in sorted(view.counts.items())
        ],
    )  # fmt: skip
