"""The elastic quotas of a cluster as admission asks for them. Pure.

Which of one name counts, and which serves a namespace, is the ledger's rule: :mod:`projections.quota_trees.elastic.served`.
"""

from __future__ import annotations

import msgspec

from projections.quota_trees.elastic import served
from projections.quota_trees.shape import ELASTIC
from reactors.admission.deciding.mapping import QuotaRef
from reactors.admission.deciding.reconcile import SeenQuota

#: Why workloads of a namespace may not use its quota: one of another namespace has its name.
NAMESAKE = "quota-namesake"


class SavedQuotas(msgspec.Struct):
    """What a snapshot holds of them."""

    _found: dict[str, dict[str, SeenQuota]]


class ElasticQuotas(served.ElasticQuotas[SeenQuota]):
    """Every ElasticQuota that was seen and not seen to be gone."""

    Saved = SavedQuotas

    def place(self, namespace: str) -> QuotaRef | None:
        """The quota of a namespace whose workloads name none; None for none.

        What exists in a namespace whose quota does not count is charged to nobody's.
        """
        found = self.serving(namespace)
        if found is None:
            return None
        name, may_hold = found
        return QuotaRef(ELASTIC, name, "", name) if may_hold else QuotaRef(ELASTIC, name, NAMESAKE)
