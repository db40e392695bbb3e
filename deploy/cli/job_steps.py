"""How many steps of training jobs that were decided in shadow are those that the operator took, for ``bursar agreement``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa

from bus.clock import SECOND_US
from deploy.queries.agreement import Compared
from projections.decisions import decisions
from projections.engine.tables import events
from projections.quota_trees.queries import Select
from reactors.catalogue import REACTORS
from reactors.engine.replica import Replica
from reactors.engine.snapshots import at
from reactors.jobs import NAME as JOBS
from reactors.jobs.state import JobsState


def steps(select: Select, cluster: str, since_s: int) -> Iterator[Compared]:
    """The steps of training jobs since a second, which are counted as they come; an empty count for the last decision's moment."""
    newest = at(select, REACTORS, cluster)
    since = _sequence(select, cluster, since_s)
    before = _counts(at(select, REACTORS, cluster, since)) if since else {}
    last_s = _moment(select, cluster, sa.func.max)
    first_s = min(max(since_s, _moment(select, cluster, sa.func.min)), last_s)
    for (step, result), count in sorted(_counts(newest).items()):
        left = count - before.get((step, result), 0)
        named = "agreed" if result == "agreed" else "against"
        if left > 0:
            yield Compared("jobs", step, named, first_s, count=left)
            yield Compared("jobs", step, named, last_s, count=0)


def _counts(replica: Replica) -> dict[tuple[str, str], int]:
    view = replica.states[JOBS]
    assert isinstance(view, JobsState)
    return dict(view.agreements.counts)


def _sequence(select: Select, cluster: str, since_s: int) -> int:
    query = sa.select(sa.func.max(events.c.sequence)).where(
        events.c.cluster == cluster, events.c.time_us < since_s * SECOND_US
    )
    return int(select(query)[0][0] or 0) if since_s else 0


def _moment(select: Select, cluster: str, of: Any) -> int:
    """Of the first or last decision about a training job."""
    query = sa.select(of(decisions.c.at_us)).where(
        decisions.c.cluster == cluster, decisions.c.reactor == JOBS
    )
    return int(select(query)[0][0] or 0) // SECOND_US
