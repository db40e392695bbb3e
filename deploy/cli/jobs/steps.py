"""Agreement between shadow steps of training jobs and the operator's steps, for ``bursar agreement``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa

from bus.clock import SECOND_US
from deploy.queries.agreement import Compared
from projections.decisions import decisions
from projections.engine.segments.reading import selecting
from projections.quota_trees.queries import Select
from reactors.catalogue import REACTORS
from reactors.engine.replica import Replica
from reactors.engine.snapshots import at
from reactors.jobs import NAME as JOBS
from reactors.jobs.state import JobsState


def steps(connection: sa.Connection, cluster: str, since_s: int) -> Iterator[Compared]:
    """The steps of training jobs since a second, counted on arrival; an empty count for the last decision's moment."""
    select = selecting(connection)
    newest = at(select, REACTORS, cluster)
    since = _sequence_before(connection, since_s) if since_s else 0
    before = _counts(at(select, REACTORS, cluster, since)) if since else {}
    last_s = _moment(select, cluster, sa.func.max)
    first_s = min(max(since_s, _moment(select, cluster, sa.func.min)), last_s)
    for (step, result), count in sorted(_counts(newest).items()):
        left = count - before.get((step, result), 0)
        named = "agreed" if result == "agreed" else "against"
        if left > 0:
            yield Compared("jobs", step, named, first_s, count=left)
            yield Compared("jobs", step, named, last_s, count=0)


def _sequence_before(connection: sa.Connection, since_s: int) -> int:
    # Its imports build past ledgers; a comparison of the whole history needs none.
    from projections.engine.past import sequence_before

    return sequence_before(connection, since_s * SECOND_US - 1)


def _counts(replica: Replica) -> dict[tuple[str, str], int]:
    view = replica.states[JOBS]
    assert isinstance(view, JobsState)
    return dict(view.agreements.counts)


def _moment(select: Select, cluster: str, of: Any) -> int:
    """Of the first or last decision in shadow about a training job."""
    query = sa.select(of(decisions.c.at_us)).where(
        decisions.c.cluster == cluster,
        decisions.c.reactor == JOBS,
        decisions.c.is_shadow == 1,
    )
    return int(select(query)[0][0] or 0) // SECOND_US
