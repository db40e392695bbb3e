"""The demand of a workload: one declarative entry for each governed kind, and one reading of them.

Pure, so that the webhook and the sources read an object alike. To govern a new kind, add one entry to
:mod:`bus.kube.kinds.table`.

Source: docs/quotas.md (whole workloads are charged, replicas times template); docs/reliability.md.
"""

from bus.kube.kinds.asking import asked, scaled, suspends
from bus.kube.kinds.objects import governing_owner, scale_of, target_of
from bus.kube.kinds.shape import (
    NAME_LABEL,
    QUEUE_ANNOTATION,
    QUOTA_LABELS,
    SELECTABLE,
    Ask,
    Kind,
    PodSet,
    Scale,
    ScaleTarget,
)
from bus.kube.kinds.table import GOVERNED, governed, is_open, served
from bus.kube.kinds.templates import CLAIM_TEMPLATE, RUNTIME

__all__ = [
    "CLAIM_TEMPLATE",
    "GOVERNED",
    "NAME_LABEL",
    "QUEUE_ANNOTATION",
    "QUOTA_LABELS",
    "RUNTIME",
    "SELECTABLE",
    "Ask",
    "Kind",
    "PodSet",
    "Scale",
    "ScaleTarget",
    "asked",
    "governed",
    "governing_owner",
    "is_open",
    "scale_of",
    "scaled",
    "served",
    "suspends",
    "target_of",
]
