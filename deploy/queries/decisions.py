"""Were the decisions in the archive what their rules make of it? For ``bursar verify --decisions``.

Those of reactors, evictions among them, and the releases of queues. A release carries no version of its rules: it is
derived by today's.

Source: docs/architecture.md.
"""

from __future__ import annotations

from collections.abc import Iterator

import sqlalchemy as sa

from bus.clock import SystemClock
from bus.envelope import Event
from bus.events import VOCABULARY
from bus.memory import MemoryTransport
from projections.decisions import decisions
from projections.quota_trees.queries import Select, archived
from projections.waits import waits
from reactors.catalogue import REACTORS
from reactors.engine.verify import Mismatch, Rederived, rederive
from reactors.queue.rederive import Difference
from reactors.queue.rederive import rederived as releases_rederived


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


def releases(select: Select) -> Rederived:
    """Every release of every cluster's queues, and what had to wait again, derived again from the archive."""
    same, mismatches = 0, list[Mismatch]()
    for (cluster,) in sorted(select(sa.select(waits.c.cluster).distinct())):

        def history(cluster: str = cluster) -> Iterator[Event]:
            for part in archived(select, cluster, VOCABULARY, apart=False):
                yield from part

        found = releases_rederived(
            history, cluster=cluster, transport=MemoryTransport(), clock=SystemClock()
        )
        same += found.same
        mismatches += [_mismatch(one) for one in found.differences]
    return Rederived(same, 0, tuple(mismatches))


def _mismatch(one: Difference) -> Mismatch:
    if one.said is None:
        return Mismatch("missing", one.id, one.sequence)
    return Mismatch("not_derived" if one.should is None else "altered", one.id, one.sequence)
