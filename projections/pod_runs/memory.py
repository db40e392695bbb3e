"""The pods in memory: live pods, pods of the current batch, and the last ended pods, with indexes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import sqlalchemy as sa

from projections.engine.changes import RowReader
from projections.engine.contract import Key
from projections.pod_runs import queries
from projections.pod_runs.shape import PodRun


class PodMemory:
    """Pods by uid, None for a missing one, with indexes by cluster (of open ones), namespace, node and owner."""

    def __init__(self, reader: RowReader, ended_kept: int) -> None:
        self._reader = reader
        self._ended_kept = ended_kept
        self._pods: dict[str, PodRun | None] = {}
        #: The pods changed in a batch.
        self.touched: dict[str, PodRun] = {}
        self.live: dict[str, set[str]] = defaultdict(set)
        self._by_namespace: dict[Key, set[str]] = defaultdict(set)
        self._by_node: dict[Key, set[str]] = defaultdict(set)
        self._by_owner: dict[str, set[str]] = defaultdict(set)

    def open(self) -> None:
        """Load every open pod."""
        for row in queries.live(self._reader.select):
            self._keep(row)

    def get(self, uid: str) -> PodRun | None:
        """The pod, if it is in memory."""
        return self._pods.get(uid)

    def put(self, row: PodRun) -> None:
        """The pod changed in this batch."""
        before = self._pods.get(row.pod.uid)
        self.touched[row.pod.uid] = row
        self._keep(row, before)

    def load(self, uids: Iterable[str]) -> None:
        """Bring the stored ones of ``uids`` into memory."""
        missing = [uid for uid in uids if uid not in self._pods]
        if not missing:
            return
        self._pods.update(dict.fromkeys(missing))
        for row in queries.by_uid(self._reader, missing):
            self._keep(row)

    def stored(
        self,
        query: sa.Select[Any] | sa.CompoundSelect[Any],
        values: Mapping[str, Any] | None = None,
    ) -> set[str]:
        """The uids found by a query, loaded into memory."""
        uids = {row[0] for row in self._reader.select(query, values)}
        self.load(uids)
        return uids

    def of_namespace(self, key: Key, since: int) -> set[str]:
        """The pods of a (cluster, namespace) with holdings or waiting from second ``since`` on."""
        values = {"cluster": key[0], "name": key[1], "since": since}
        return self.stored(queries.OF_NAMESPACE, values) | self._by_namespace.get(key, set())

    def on_node(self, key: Key, since: int) -> set[str]:
        """The pods with holdings, or an end before any, on a (cluster, node) after second ``since``."""
        values = {"cluster": key[0], "name": key[1], "since": since}
        return self.stored(queries.ON_NODE, values) | self._by_node.get(key, set())

    def of_owners(self, uids: Iterable[str], stored: set[str]) -> set[str]:
        """The pods with a controller in ``uids``; ``stored`` are the ones in the ledger."""
        self.load(stored)
        return stored.union(*(self._by_owner.get(owner, ()) for owner in uids))

    def settle(self) -> None:
        """Drop ended pods beyond the limit, once there are a quarter more."""
        excess = len(self._pods) - self._ended_kept - sum(map(len, self.live.values()))
        if excess <= self._ended_kept // 4:
            return
        ended = [uid for uid, row in self._pods.items() if row is None or row.run.end_s is not None]
        for uid in ended[:excess]:
            self._forget(uid)

    def _keep(self, row: PodRun, before: PodRun | None = None) -> None:
        pod = row.pod
        self._pods[pod.uid] = row
        live = self.live[pod.cluster]
        if row.run.end_s is None:
            live.add(pod.uid)
        else:
            live.discard(pod.uid)
        if before is None or before.run is not row.run or before.pod.owner != pod.owner:
            self._by_namespace[(pod.cluster, pod.namespace)].add(pod.uid)
            if pod.owner is not None:
                self._by_owner[pod.owner.uid].add(pod.uid)
            for node in _nodes(row):
                self._by_node[(pod.cluster, node)].add(pod.uid)

    def _forget(self, uid: str) -> None:
        row = self._pods.pop(uid)
        if row is None:
            return
        pod = row.pod
        _drop(self._by_namespace, (pod.cluster, pod.namespace), uid)
        if pod.owner is not None:
            _drop(self._by_owner, pod.owner.uid, uid)
        for node in _nodes(row):
            _drop(self._by_node, (pod.cluster, node), uid)


def _nodes(row: PodRun) -> Iterable[str]:
    """The nodes with an effect on the run."""
    if row.run.idle is not None:
        return () if row.run.idle.node is None else (row.run.idle.node,)
    return (segment.node for segment in row.run.segments)


def _drop(index: dict[Any, set[str]], key: Any, uid: str) -> None:
    """Take one uid out of an index, and the key with its last one."""
    found = index.get(key)
    if found is not None:
        found.discard(uid)
        if not found:
            del index[key]
