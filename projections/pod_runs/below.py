"""The workloads and pods below a controller: in the stored rows, and among the workloads changed in this batch.

Most facts of workloads come when nothing is below them yet. So the stored rows are asked once for all workloads of a part of a
batch, at the first question.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from projections.pod_runs import queries

if TYPE_CHECKING:
    from projections.engine.changes import RowReader
    from projections.workloads import WorkloadHistory


#: Controllers of one query: databases bound the parameters of a statement.
MOST = 1_000


class Below:
    """Uids by the uid of their controller."""

    def __init__(self, reader: RowReader) -> None:
        self._reader = reader
        #: The controllers possibly needed in this part of the batch.
        self._expected: frozenset[str] = frozenset()
        self._stored: dict[sa.Select[Any], dict[str, list[str]]] = {}
        self._changed: dict[str, set[str]] = defaultdict(set)

    def expect(self, owners: Iterable[str]) -> None:
        """A part of a batch begins with possible questions about these controllers."""
        self._expected = frozenset(owners)
        self._stored.clear()

    def changed(self, before: WorkloadHistory | None, after: WorkloadHistory) -> None:
        """A workload changed in this batch."""
        if before is not None and before.owner is not None:
            self._changed[before.owner.uid].discard(after.uid)
        if after.owner is not None:
            self._changed[after.owner.uid].add(after.uid)

    def settle(self) -> None:
        """The next batch begins: nothing has changed yet."""
        self._changed.clear()

    def workloads(self, owners: Collection[str]) -> set[str]:
        """The workloads with a controller in ``owners``."""
        found = self._found(queries.WORKLOADS_BELOW, owners)
        return found.union(*(self._changed.get(owner, ()) for owner in owners))

    def pods(self, owners: Collection[str]) -> set[str]:
        """The stored pods with a controller in ``owners``."""
        return self._found(queries.PODS_BELOW, owners)

    def _found(self, query: sa.Select[Any], owners: Collection[str]) -> set[str]:
        if not self._expected.issuperset(owners):
            return {uid for uid, _ in self._rows(query, owners)}
        stored = self._stored.get(query)
        if stored is None:
            stored = self._stored[query] = defaultdict(list)
            for uid, owner in self._rows(query, self._expected):
                stored[owner].append(uid)
        return {uid for owner in owners for uid in stored.get(owner, ())}

    def _rows(self, query: sa.Select[Any], owners: Collection[str]) -> Iterator[tuple[Any, ...]]:
        uids = sorted(owners)
        for first in range(0, len(uids), MOST):
            yield from self._reader.select(query, {"uids": uids[first : first + MOST]})
