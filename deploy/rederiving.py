"""Were the reactors' decisions in the archive what their rules make of it? For ``bursar verify --decisions``.

Source: ``house.md`` section 5.
"""

from __future__ import annotations

from collections.abc import Iterator

import sqlalchemy as sa

from bus.envelope import Event
from bus.events import VOCABULARY
from projections.admissions.queries import Select, archived
from projections.decisions import decisions
from reactors.catalogue import REACTORS
from reactors.engine.rederive import Mismatch, Rederived, rederive


def rederived(select: Select) -> Rederived:
    """Every decision of every cluster, derived again from the archive."""
    same, passed_over, mismatches = 0, 0, list[Mismatch]()
    for (cluster,) in sorted(select(sa.select(decisions.c.cluster).distinct())):

        def history(cluster: str = cluster) -> Iterator[Event]:
            for part in archived(select, cluster, VOCABULARY):
                yield from part

        found = rederive(history, REACTORS, cluster)
        same += found.same
        passed_over += found.passed_over
        mismatches += found.mismatches
    return Rederived(same, passed_over, tuple(mismatches))
