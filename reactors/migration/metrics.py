"""Metrics of migrations. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from bus.metrics import Metric, Sample
from reactors.engine.replica import Replica
from reactors.migration import NAME
from reactors.migration.shape import PENDING
from reactors.migration.state import MigrationState


def figures(replica: Replica) -> Iterator[Metric]:
    """All of them, as of the newest event."""
    view = replica.states[NAME]
    assert isinstance(view, MigrationState)
    phases = Counter(view.job(uid).status.phase or PENDING for uid in view.tracked)
    yield Metric(
        "bursar_migrations", "gauge", "PodMigrationJobs that exist, by phase.",
        [Sample(count, {"phase": phase}) for phase, count in sorted(phases.items())],
    )  # fmt: skip
    yield Metric(
        "bursar_migrations_ended_total", "counter", "PodMigrationJobs that ended, by phase and by reason.",
        [
            Sample(count, {"phase": phase, "reason": reason})
            for (phase, reason), count in sorted(view.counts.items())
        ],
    )  # fmt: skip
