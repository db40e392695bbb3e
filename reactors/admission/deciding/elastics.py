"""The elastic quotas of a cluster, for admission. Pure.

The ledger's rule selects one quota of each name, and the quota of each namespace: :mod:`projections.quota_trees.elastic.served`.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from projections.engine.parts import Part
from projections.quota_trees.elastic.served import ServedQuotas
from projections.quota_trees.shape import ELASTIC
from reactors.admission.deciding.mapping import QuotaRef
from reactors.admission.deciding.reconcile import SeenQuota

#: The reason why workloads of a namespace may not use its quota: a quota of another namespace has its name.
NAMESAKE = "quota-namesake"


class SavedQuotas(msgspec.Struct):
    """The part of a snapshot for elastic quotas."""

    _found: dict[str, dict[str, SeenQuota]]


class ElasticQuotas(Part):
    """Every observed ElasticQuota, until its deletion is observed."""

    Saved = SavedQuotas
    derived = frozenset({"_served"})

    def __init__(self) -> None:
        #: By name and namespace.
        self._found: dict[str, dict[str, SeenQuota]] = {}
        self._served = ServedQuotas(self._found)

    def restore(self, saved: SavedQuotas) -> None:
        """Restore a saved state into a new one. The selected quotas and their namespaces follow from the quotas."""
        super().restore(saved)
        self._served = ServedQuotas(self._found)

    def take(self, seen: SeenQuota) -> tuple[SeenQuota, bool]:
        """As :meth:`ServedQuotas.take`."""
        return self._served.take(seen)

    def __iter__(self) -> Iterator[SeenQuota]:
        return iter(self._served)

    def place(self, namespace: str) -> QuotaRef | None:
        """The quota of a namespace for workloads without a quota label; None for none.

        Workloads of a namespace without a selected quota are charged to no quota.
        """
        found = self._served.serving(namespace)
        if found is None:
            return None
        name, may_hold = found
        return QuotaRef(ELASTIC, name, "", name) if may_hold else QuotaRef(ELASTIC, name, NAMESAKE)
