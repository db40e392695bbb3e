"""Notebooks that Bursar's own culling would have stopped on recorded history, for other idle limits: the lab's rule *later*.

Source: docs/lab.md; docs/culling.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import sqlalchemy as sa

from bus.events.decisions import Cull as CullDecided
from deploy.queries.lab import Recording
from projections.engine.past import sequence_before
from projections.engine.segments.reading import selecting
from reactors.culling.policy import CullingPolicy
from reactors.culling.simulate import Cull, Simulation
from reactors.lab.culling.trial import CullingPlayed


def simulated(
    connection: sa.Connection, cluster: str, policy: CullingPolicy, spans_s: Sequence[int], warning_s: int,
    since_us: int | None, until_us: int, counted: tuple[int, int],
) -> Iterator[Simulation]:  # fmt: skip
    """One for each idle limit in seconds, between two moments. ``counted``: notebooks and looks of the period."""
    first = 0 if since_us is None else sequence_before(connection, since_us - 1)
    last = sequence_before(connection, until_us - 1)
    recording = Recording(selecting(connection), cluster, first, last)
    tried = [
        policy.model_copy(update={"idle_seconds": span_s, "warning_seconds": warning_s})
        for span_s in spans_s
    ]
    for one in recording.tried([(each, "on") for each in tried], rules=("later",)):
        yield Simulation(tuple(_culls(one.played[0])), *counted, None, None)


def _culls(played: CullingPlayed) -> Iterator[Cull]:
    spans = {span.decision.id: span for span in played.spans if span.is_saved}
    for one in played.decided:
        decision = one.decision
        if not isinstance(decision, CullDecided):
            continue
        span = spans.get(decision.id)
        saved_us = span.until_us - span.from_us if span is not None else 0
        again_us = span.again_us or None if span is not None else None
        idle_us = decision.numbers["last_activity_us"]
        yield Cull(one.uid, decision.at_us, decision.reason, idle_us, saved_us, again_us)
