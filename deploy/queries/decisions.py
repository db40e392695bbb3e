"""Decisions of the archive, compared with the results of their rules. For ``bursar verify --decisions``.

It covers decisions of reactors, with evictions and passes of the scheduler, answers to reviews, charges and releases
after observations, and releases of queues. Only the first carry a version of their rules. Today's rules
derive the others.

Source: docs/architecture.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

import msgspec
import sqlalchemy as sa

from bus.clock import SystemClock
from bus.envelope import Event
from bus.memory import MemoryTransport
from projections.decisions import decisions
from projections.engine.segments.reading import clusters
from projections.engine.tables import snapshots
from projections.quota_trees.decisions import admissions
from projections.quota_trees.queries import Select, archived
from projections.waits import waits
from reactors.catalogue import REACTORS
from reactors.engine.verify import Mismatch, RederivedDecisions, decided_types, rederive
from reactors.rederive.journals import rederive as journals_rederived
from reactors.rederive.shape import Checked, DecisionDifference
from reactors.rederive.snapshots import Compared, SnapshotComparison, compared


class AllRederived(msgspec.Struct, frozen=True):
    """The results for decisions of reactors and for entries of journals; those passed over, by reason; and
    whether the newest snapshots match the history.
    """

    decisions: RederivedDecisions
    reviews: RederivedDecisions
    observed: RederivedDecisions
    releases: RederivedDecisions
    passed_over: Mapping[str, int]
    snapshots: Compared

    @property
    def is_right(self) -> bool:
        """Whether nothing differs."""
        parts = (self.decisions, self.reviews, self.observed, self.releases)
        return not any(part.mismatches for part in parts) and not self.snapshots.differences


def rederived(select: Select) -> AllRederived:
    """Every decision of every cluster, derived again from the archive."""
    reactors = list[RederivedDecisions]()
    reviews, observed, releases = (
        list[RederivedDecisions](),
        list[RederivedDecisions](),
        list[RederivedDecisions](),
    )
    passed_over: Counter[str] = Counter()
    kept = list[Compared]()
    transport, clock = MemoryTransport(), SystemClock()
    types = decided_types(REACTORS)
    with_decisions = sorted({*_clusters(select, decisions), *clusters(select, types)})
    for cluster in with_decisions:
        comparison = SnapshotComparison(select, REACTORS, cluster, transport, clock, is_beside=True)
        # One reading serves both, and one replica.
        history = partial(_history, select, cluster, see=comparison.apply)
        decided = _history(select, cluster, types)
        reactors.append(rederive(history, REACTORS, cluster, decided, comparison.known))
        kept.append(comparison.end())
    for cluster in {*_clusters(select, snapshots)}.difference(with_decisions):
        kept.append(compared(select, REACTORS, cluster, transport, clock))
    for cluster in sorted({*_clusters(select, admissions), *_clusters(select, waits)}):
        found = journals_rederived(
            partial(_history, select, cluster), cluster=cluster, transport=transport, clock=clock
        )
        reviews.append(_as_mismatches(found.reviews))
        observed.append(_as_mismatches(found.observed))
        releases.append(_as_mismatches(found.releases))
        passed_over.update(found.passed_over)
    snapshotted = Compared(
        sum(one.same for one in kept), tuple(d for one in kept for d in one.differences)
    )
    passed = dict(sorted(passed_over.items()))
    return AllRederived(
        _sum(reactors), _sum(reviews), _sum(observed), _sum(releases), passed, snapshotted
    )


def _clusters(select: Select, table: sa.Table) -> list[str]:
    return sorted(cluster for (cluster,) in select(sa.select(table.c.cluster).distinct()))


def _history(
    select: Select,
    cluster: str,
    types: Iterable[str] | None = None,
    see: Callable[[Event], None] = lambda event: None,
) -> Iterator[Event]:
    """The events of a cluster, of some ``types`` or all, as they were stored; ``see`` sees each of them, too."""
    for part in archived(select, cluster, types, apart=False):
        for event in part:
            see(event)
            yield event


def _sum(parts: list[RederivedDecisions]) -> RederivedDecisions:
    return RederivedDecisions(
        sum(part.same for part in parts), sum(part.passed_over for part in parts),
        tuple(one for part in parts for one in part.mismatches),
    )  # fmt: skip


def _as_mismatches(checked: Checked) -> RederivedDecisions:
    return RederivedDecisions(checked.same, 0, tuple(_mismatch(one) for one in checked.differences))


def _mismatch(one: DecisionDifference) -> Mismatch:
    if one.recorded is None:
        return Mismatch("missing", one.id, one.sequence)
    return Mismatch("not_derived" if one.should is None else "altered", one.id, one.sequence)
