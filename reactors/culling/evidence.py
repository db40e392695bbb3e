"""Evidence as samples for the verdict: a notebook's row of activity, and a single probe. The only translation."""

from __future__ import annotations

from collections.abc import Sequence

from bus.events.decisions import Decision
from bus.events.notebooks import Evidence
from projections.activity import Activity
from reactors.culling.fusion import Sample, are_enough, last_activity
from reactors.culling.policy import Limits


def samples_of(row: Activity) -> list[Sample]:
    """One readable sample per source, with its newest activity in all; and the newest failure, if that is newer."""
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


def last_word(
    evidence: Sequence[Evidence],
    observed_us: int,
    decision: Decision,
    limits: Limits,
) -> str:
    """Why a look right before a stop for idleness speaks against it: ``active``, or ``unreadable``; "" = it does not."""
    samples = [
        Sample(
            source=one.source,
            observed_us=observed_us,
            outcome=one.outcome,
            busy=one.busy,
            active_us=one.active_us,
            starting_since_us=one.starting_since_us,
            connected=one.connected,
        )
        for one in evidence
    ]
    readable = [one for one in samples if one.outcome == "ok"]
    if not are_enough({one.source for one in readable}, {one.source for one in samples}, limits):
        return "unreadable"
    active_us, _ = last_activity(readable, decision.numbers["running_since_us"], limits)
    return "active" if active_us > decision.numbers["last_activity_us"] else ""
