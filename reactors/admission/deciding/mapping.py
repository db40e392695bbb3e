"""Maps an object to its quota. Pure.

By the workload's own label; where it has none, by the label of its namespace; where that has none, by the
ElasticQuota that serves the namespace. Which business quotas a namespace may use, and to which one it is charged, is
the ledger's rule (:mod:`projections.attribution`). What names no quota and lives in no mapped or served namespace is
not governed.

Source: docs/quotas.md.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from bus.events.quotas import QuotaObserved
from projections.attribution import Rules, SeenNamespace, bound, counts
from projections.quota_trees.shape import BUSINESS, ELASTIC

LABEL = "biz.group.resource.quota"
ELASTIC_LABEL = "quota.scheduling.koordinator.sh/name"
#: Labels that name a quota, as a decision records them.
_LABELS = {"business": LABEL, "elastic": ELASTIC_LABEL}
#: Recorded for the labels that an object was last seen with.
SEEN = "seen"

#: Why an object may not name a quota: neither its namespace nor the quota allows it.
NOT_YOURS = "quota-not-yours"

#: Labels that name a model.
_TYPES = {name: f"{LABEL}/{name}-type" for name in ("cpu", "gpu", "memory")}


class QuotaRef(msgspec.Struct, frozen=True):
    """A quota by kind and name. ``refusal`` "" unless the object may not name it.

    What exists all the same is charged to ``charged``, "" for no quota.
    """

    kind: str
    quota: str
    refusal: str = ""
    charged: str = ""

    @property
    def full_name(self) -> str:
        """With its kind: quotas of two kinds may have one name. No quota is called so."""
        return f"{self.kind}/{self.quota}"


def place(
    labels: Mapping[str, str],
    namespace: str,
    mapping: Mapping[str, str] | None,
    rules: Rules,
    serving: QuotaRef | None = None,
    *,
    requires_namespaces: bool = False,
) -> QuotaRef | None:
    """The quota of an object with ``labels`` in a namespace with the labels ``mapping``; None for one that is not governed.

    ``mapping`` is None where the namespace was not seen.
    ``rules`` are those of the business quotas that were seen. ``serving`` is the ElasticQuota that serves the namespace
    (:class:`reactors.admission.deciding.elastics.ElasticQuotas`).
    ``requires_namespaces``: a quota that names or selects none, nor one above it, serves mapped namespaces only.
    """
    around = mapping or {}
    mapped, named = around.get(LABEL, ""), labels.get(LABEL, "")
    if named or mapped:
        quota, is_allowed = counts(named, mapped, SeenNamespace(namespace, mapping), rules)
        if requires_namespaces and not mapped and bound(named, rules) is None:
            is_allowed = False
        refusal = "" if is_allowed else NOT_YOURS
        return QuotaRef(BUSINESS, named or mapped, refusal, quota)
    elastic = labels.get(ELASTIC_LABEL) or around.get(ELASTIC_LABEL)
    return QuotaRef(ELASTIC, elastic, "", elastic) if elastic else serving


def counted(where: QuotaRef | None) -> QuotaRef | None:
    """Where what exists is charged; None for nowhere."""
    if where is None or where.charged == where.quota:
        return where
    return QuotaRef(where.kind, where.charged, "", where.charged) if where.charged else None


def types_of(labels: Mapping[str, str]) -> dict[str, str]:
    """The model that each type label names, by ``cpu``, ``gpu`` and ``memory``."""
    return {name: model for name, label in _TYPES.items() if (model := labels.get(label))}


def label_of(labels: Mapping[str, str]) -> str:
    """Which of an object's labels names its quota, as it is recorded; "" for none."""
    for name, label in _LABELS.items():
        if labels.get(label):
            return name
    return ""


def recorded_labels(label: str, quota: str) -> dict[str, str]:
    """The labels that name ``quota``, of which ``label`` was recorded."""
    return {_LABELS[label]: quota} if label in _LABELS else {}


def tree_of(places: Mapping[tuple[str, str], str], quota: QuotaObserved) -> str:
    """Where a quota stands, or would stand: its own tree, else its parent's, else a new one.

    ``places``: (kind, name) of every quota to its tree's name.
    """
    if quota.kind == ELASTIC:
        return places.get((ELASTIC, quota.name), f"elastic/{quota.tree}")
    above = quota.parent or quota.name
    new = places.get((BUSINESS, above), f"biz/{above}")
    return places.get((BUSINESS, quota.name), new)
