"""The question of a review: a closed union, read from the resource, the operation and the subresource alone. Pure.

Source: ``docs/admission.md``.
"""

from __future__ import annotations

import msgspec

from bus.kube import kinds
from projections.quota_trees.shape import BUSINESS, ELASTIC
from reactors.admission.coverage.owners import wrote_node
from reactors.webhook.review import Review

#: The kind of a quota by group and resource.
QUOTAS = {
    ("bursar.io", "bizgroupresourcequotas"): BUSINESS,
    ("scheduling.sigs.k8s.io", "elasticquotas"): ELASTIC,
}
#: Group and resource.
AUTOSCALERS = ("autoscaling", "horizontalpodautoscalers")
CLAIMS = ("resource.k8s.io", "resourceclaims")
TEMPLATES = ("resource.k8s.io", "resourceclaimtemplates")


class QuotaChange(msgspec.Struct, frozen=True):
    """May a quota of this kind be created, changed or deleted?"""

    kind: str


class AutoscalerChange(msgspec.Struct, frozen=True):
    """Would the target of an autoscaler fit at its most replicas?"""


class ClaimChange(msgspec.Struct, frozen=True):
    """May a claim of devices be charged?"""


class TemplateChange(msgspec.Struct, frozen=True):
    """May a new template of claims stand under this name?"""


class ScaleChange(msgspec.Struct, frozen=True):
    """May a workload of this kind have other replicas?"""

    kind: kinds.Kind


class WorkloadChange(msgspec.Struct, frozen=True):
    """May a workload or a pod of this kind be created or changed?"""

    kind: kinds.Kind


Question = (
    QuotaChange | AutoscalerChange | ClaimChange | TemplateChange | ScaleChange | WorkloadChange
)


def classify(review: Review) -> Question | None:
    """The question; None if no quota can govern the reviewed object."""
    resource = (review.group, review.resource)
    quota = QUOTAS.get(resource)
    if quota is not None:
        return None if review.subresource else QuotaChange(quota)
    if review.object is None:
        return None
    if resource in (AUTOSCALERS, CLAIMS, TEMPLATES):
        return None if review.subresource else _of_beside(resource, review.operation)
    kind = kinds.served(review.group, review.version, review.resource)
    if kind is None:
        return None
    if review.subresource == "scale":
        return ScaleChange(kind)
    if review.subresource not in ("", "resize") or wrote_node(review):
        return None
    return WorkloadChange(kind)


def _of_beside(resource: tuple[str, str], operation: str) -> Question | None:
    """The question about an object beside workloads. A template never changes."""
    if resource == AUTOSCALERS:
        return AutoscalerChange()
    if resource == CLAIMS:
        return ClaimChange() if operation in ("CREATE", "UPDATE") else None
    return TemplateChange() if operation == "CREATE" else None
