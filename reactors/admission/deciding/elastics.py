"""The elastic quotas of a cluster as admission asks for them. Pure.

Which of one name counts, and which serves a namespace, is the ledger's rule: :mod:`projections.quota_trees.elastic.served`.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from projections.engine.parts import Part
from projections.quota_trees.elastic.served import ServedQuotas
from projections.quota_trees.shape import ELASTIC
from reactors.admission.deciding.mapping import QuotaRef
from reactors.admission.deciding.reconcile import SeenQuota

#: Why workloads of a namespace may not use its quota: one of another namespace has its name.
NAMESAKE = "quota-namesake"


class SavedQuotas(msgspec.Struct):
    """What a snapshot holds of them."""

    _found: dict[str, dict[str, SeenQuota]]


class ElasticQuotas(Part):
    """Every ElasticQuota that was seen and not seen to be gone."""

    Saved = SavedQuotas
    derived = frozenset({"_served"})

    def __init__(self) -> None:
        #: By name and namespace.
        self._found: dict[str, dict[str, SeenQuota]] = {}
        self._served = ServedQuotas(self._found)

    def restore(self, saved: SavedQuotas) -> None:
        """Become what was saved, in a new one. What counts and whom it serves follows from the quotas."""
        super().restore(saved)
        self._served = ServedQuotas(self._found)

    def take(self, seen: SeenQuota) -> tuple[SeenQuota, bool]:
        """As :meth:`ServedQuotas.take`."""
        return self._served.take(seen)

    def __iter__(self) -> Iterator[SeenQuota]:
        return iter(self._served)

    def place(self, namespace: str) -> QuotaRef | None:
        """The quota of a namespace whose workloads name none; None for none.

        What exists in a namespace whose quota does not count is charged to nobody's.
        """
        found = self._served.serving(namespace)
        if found is None:
            return None
        name, may_hold = found
        return QuotaRef(ELASTIC, name, "", name) if may_hold else QuotaRef(ELASTIC, name, NAMESAKE)
