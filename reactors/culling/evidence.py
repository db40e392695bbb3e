"""The row of a notebook's activity as samples to judge: the only place where the two vocabularies meet."""

from __future__ import annotations

from projections.activity import Activity
from reactors.culling.fusion import Sample


def samples_of(row: Activity) -> list[Sample]:
    """One readable sample per source, carrying its newest activity in all; and the newest failure, where that is newer."""
    samples = []
    for source, seen in row.sources:
        if seen.ok is not None:
            samples.append(
                Sample(
                    source=source,
                    observed_us=seen.ok_us,
                    busy=seen.ok.busy,
                    active_us=seen.active_us,
                    starting_since_us=seen.ok.starting_since_us,
                    connected=seen.ok.connected,
                )
            )
        if seen.failed is not None and seen.failed_us > seen.ok_us:
            samples.append(
                Sample(source=source, observed_us=seen.failed_us, outcome=seen.failed.outcome)
            )
    return samples
