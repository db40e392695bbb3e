"""Finds the objects of a cluster by owner, node, namespace, name and quota label. Pure but for its state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import msgspec

from bus.kube.kinds import QUOTA_LABELS
from projections import timelines
from projections.cluster.rows import Pod, Row, Workload
from projections.quota_trees.shape import BUSINESS, ELASTIC

K = TypeVar("K")

#: Kind, namespace and name.
Name = tuple[str, str, str]

_BUSINESS_LABEL, _, _, _, _ELASTIC_LABEL, _ = QUOTA_LABELS


class QuotaRef(msgspec.Struct, frozen=True, gc=False):
    """A quota by its kind and its name."""

    kind: str
    name: str


class Groups(dict[K, set[str]]):
    """Uids by a key: the index's own, to be read only until the next event. A key without uids takes no room."""

    def __missing__(self, key: K) -> set[str]:
        # A new one: the caller may change it.
        return set()

    def add(self, key: K, uid: str) -> None:
        """Put ``uid`` under ``key``."""
        found = self.get(key)
        if found is None:
            self[key] = {uid}
        else:
            found.add(uid)

    def discard(self, key: K, uid: str) -> None:
        """Take ``uid`` from ``key``."""
        found = self.get(key)
        if found is not None:
            found.discard(uid)
            if not found:
                del self[key]


class Index:
    """Of pods and workloads; names of everything. Kept by :class:`projections.cluster.state.ClusterState`."""

    def __init__(self) -> None:
        #: By the uid of the controller: its children.
        self.owned: Groups[str] = Groups()
        #: By the name of a node: its pods, ended ones too.
        self.on_node: Groups[str] = Groups()
        self.in_namespace: Groups[str] = Groups()
        #: By the quota in an object's own labels.
        self.naming: Groups[QuotaRef] = Groups()
        #: By kind and namespace: uid by name. Of two objects of one name the newer one: the other's deletion was not seen yet.
        self.names: dict[tuple[str, str], dict[str, str]] = {}
        #: Every object of a name shared by several.
        self._namesakes: dict[Name, dict[str, Row]] = {}

    def put(self, before: Row | None, after: Row | None, rows: Mapping[str, Row]) -> None:
        """An object is ``after`` from now on. ``rows``: the existing objects of its kind, by uid."""
        if before is not None and after is not None:
            self._moved(before, after)
            if self._namesakes:
                self._named(after, after, rows)
        elif after is not None:
            self._came(after)
            self._named(after, after, rows)
        elif before is not None:
            self._left(before)
            self._named(before, None, rows)

    def named(self, kind: str, namespace: str, name: str) -> str:
        """The uid of the object of this name; "" for none."""
        names = self.names.get((kind, namespace))
        return names.get(name, "") if names is not None else ""

    def _moved(self, before: Row, after: Row) -> None:
        """Kind, namespace and name of an object never change."""
        uid = after.uid
        if isinstance(before, Pod) and isinstance(after, Pod) and before.node != after.node:
            if before.node:
                self.on_node.discard(before.node, uid)
            if after.node:
                self.on_node.add(after.node, uid)
        if not isinstance(before, Pod | Workload) or not isinstance(after, Pod | Workload):
            return
        if before.owner != after.owner:
            if before.owner is not None:
                self.owned.discard(before.owner.uid, uid)
            if after.owner is not None:
                self.owned.add(after.owner.uid, uid)
        if before.labels != after.labels:
            for ref in named_quotas(before.labels):
                self.naming.discard(ref, uid)
            for ref in named_quotas(after.labels):
                self.naming.add(ref, uid)

    def _came(self, row: Row) -> None:
        if isinstance(row, Pod) and row.node:
            self.on_node.add(row.node, row.uid)
        if isinstance(row, Pod | Workload):
            self.in_namespace.add(row.namespace, row.uid)
            if row.owner is not None:
                self.owned.add(row.owner.uid, row.uid)
            for ref in named_quotas(row.labels):
                self.naming.add(ref, row.uid)

    def _left(self, row: Row) -> None:
        if isinstance(row, Pod) and row.node:
            self.on_node.discard(row.node, row.uid)
        if isinstance(row, Pod | Workload):
            self.in_namespace.discard(row.namespace, row.uid)
            if row.owner is not None:
                self.owned.discard(row.owner.uid, row.uid)
            for ref in named_quotas(row.labels):
                self.naming.discard(ref, row.uid)

    def _named(self, row: Row, after: Row | None, rows: Mapping[str, Row]) -> None:
        place, uid = (row.kind, row.namespace), row.uid
        names = self.names.get(place)
        if names is None:
            names = self.names[place] = {}
        known, name = names.get(row.name), (*place, row.name)
        several = self._namesakes.get(name)
        if several is None:
            if after is None:
                if known == uid:
                    del names[row.name]
                if not names:
                    del self.names[place]
                return
            # An object gone by the same event has the name no more.
            if known is None or known == uid or known not in rows:
                names[row.name] = uid
                return
            several = self._namesakes[name] = {known: rows[known]}
        if after is None:
            several.pop(uid, None)
        else:
            several[uid] = after
        names[row.name] = _newest(several)
        if len(several) == 1:
            del self._namesakes[name]


def named_quotas(labels: Mapping[str, str]) -> list[QuotaRef]:
    """The quotas in an object's labels: a business quota, an elastic one, both or none."""
    found = []
    if business := labels.get(_BUSINESS_LABEL):
        found.append(QuotaRef(BUSINESS, business))
    if elastic := labels.get(_ELASTIC_LABEL):
        found.append(QuotaRef(ELASTIC, elastic))
    return found


def _newest(rows: Mapping[str, Row]) -> str:
    found: Row | None = None
    for _, row in sorted(rows.items()):
        if found is None or timelines.precedes(
            found.version, found.seen_us, row.version, row.seen_us
        ):
            found = row
    assert found is not None
    return found.uid
