"""Metrics of a cluster's sources: its clock's difference to this machine's, and events without a row. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from bus.clock import SECOND_US
from bus.kube.watch.contract import ReflectorState
from bus.metrics import Metric, Sample, seconds_text


def source_metrics(states: Mapping[str, ReflectorState]) -> Iterator[Metric]:
    """All of them, by source."""
    yield Metric(
        "bursar_source_clock_offset_seconds",
        "gauge",
        "What is added to this machine's clock to have the API server's.",
        [
            Sample(_signed(state.offset_us), {"source": name})
            for name, state in sorted(states.items())
        ],
    )
    yield Metric(
        "bursar_source_unread_objects",
        "gauge",
        "Objects of the newest list whose records were refused. 0 is right.",
        [Sample(state.unread_count, {"source": name}) for name, state in sorted(states.items())],
    )
    yield Metric(
        "bursar_source_heard_timestamp_seconds",
        "gauge",
        "When the API server last said something of this source: seconds since 1970; 0 = not yet.",
        [
            Sample(state.heard_us // SECOND_US, {"source": name})
            for name, state in sorted(states.items())
        ],
    )
    yield Metric(
        "bursar_source_trouble",
        "gauge",
        "1 while something keeps a source from following its objects: `bursar status` says what.",
        [
            Sample(int(bool(state.trouble)), {"source": name})
            for name, state in sorted(states.items())
        ],
    )


def _signed(us: int) -> str:
    return f"-{seconds_text(-us)}" if us < 0 else seconds_text(us)
