"""Maps an object to its quota. Pure.

By the workload's own label; without it, by the label of its namespace; without that, by the
ElasticQuota that serves the namespace. The business quotas that a namespace may use, and the charged one, are
the ledger's rule (:mod:`projections.attribution`). An object without a quota label, outside mapped and served namespaces, is
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
#: Labels with a quota's name, as a decision records them.
_LABELS = {"business": LABEL, "elastic": ELASTIC_LABEL}
#: Recorded for the labels of an object's last observation.
SEEN = "seen"

#: Why an object may not name a quota: neither its namespace nor the quota allows it.
NOT_YOURS = "quota-not-yours"

#: Labels with a model's name.
_TYPES = {name: f"{LABEL}/{name}-type" for name in ("cpu", "gpu", "memory")}


class QuotaRef(msgspec.Struct, frozen=True):
    """A quota by kind and name. ``refusal`` "" unless the object may not name it.

    If the object exists all the same, it is charged to ``charged``, "" for no quota.
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
    """The quota of an object with ``labels`` in a namespace with the labels ``mapping``; None for an ungoverned one.

    ``mapping`` is None for an unobserved namespace.
    ``rules`` are those of the observed business quotas. ``serving`` is the ElasticQuota that serves the namespace
    (:class:`reactors.admission.deciding.elastics.ElasticQuotas`).
    ``requires_namespaces``: without namespaces in it or in a quota above it, a quota serves mapped namespaces only.
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
    """The charged quota of an existing object; None for none."""
    if where is None or where.charged == where.quota:
        return where
    return QuotaRef(where.kind, where.charged, "", where.charged) if where.charged else None


def types_of(labels: Mapping[str, str]) -> dict[str, str]:
    """The model of each type label, by ``cpu``, ``gpu`` and ``memory``."""
    return {name: model for name, label in _TYPES.items() if (model := labels.get(label))}


def label_of(labels: Mapping[str, str]) -> str:
    """The object's label with its quota's name, as it is recorded; "" for none."""
    for name, label in _LABELS.items():
        if labels.get(label):
            return name
    return ""


def recorded_labels(label: str, quota: str) -> dict[str, str]:
    """The labels with the name ``quota``, rebuilt from the recorded ``label``."""
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
