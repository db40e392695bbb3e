"""Resolves a question against observed, charged and waiting objects: an answer, or a decision for a tree.

Source: docs/architecture.md.
"""

from __future__ import annotations

from reactors.admission.reviewing.autoscalers import answer_autoscaler
from reactors.admission.reviewing.charges import Charge
from reactors.admission.reviewing.claims import answer_template, resolve_claim
from reactors.admission.reviewing.context import Context
from reactors.admission.reviewing.questions import (
    AutoscalerChange,
    ClaimChange,
    Question,
    QuotaChange,
    ScaleChange,
    TemplateChange,
    WorkloadChange,
)
from reactors.admission.reviewing.quotas import Declaration, resolve_quota
from reactors.admission.reviewing.scales import UnseenScale, resolve_scale
from reactors.admission.reviewing.workloads import resolve_workload
from reactors.webhook.review import Answer, Review


def resolve(
    question: Question, review: Review, context: Context
) -> Answer | Charge | Declaration | UnseenScale:
    """Raises DemandError for an unreadable object."""
    match question:
        case WorkloadChange():
            return resolve_workload(question, review, context)
        case ScaleChange():
            return resolve_scale(question, review, context)
        case ClaimChange():
            return resolve_claim(review, context)
        case TemplateChange():
            return answer_template(review, context)
        case QuotaChange():
            return resolve_quota(question, review, context)
        case AutoscalerChange():
            return answer_autoscaler(review, context)
