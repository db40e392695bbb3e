"""The answer to a review of an autoscaler: whether its target would fit at its largest number of replicas. Pure.

Source: ``docs/admission.md``.
"""

from __future__ import annotations

from bus.kube import kinds
from projections.quota_trees import TreeOverlay
from reactors.admission.deciding.decide import Request, decide
from reactors.admission.deciding.mapping import types_of
from reactors.admission.deciding.messages import ALLOWED, sentence
from reactors.admission.reviewing.context import Context
from reactors.webhook.review import Answer, Review


def answer_autoscaler(review: Review, context: Context) -> Answer:
    """Whether its target would fit at ``maxReplicas``. Nothing is charged: each scale has its own review."""
    view, journals = context.view, context.journals
    target = kinds.target_of(review.object or {})
    found = view.named(target.kind, review.namespace, target.name)
    where = view.place(found.labels, found.namespace) if found else None
    if found is None or found.ask.per_replica is None or where is None:
        return ALLOWED
    tree = journals.places.get((where.kind, where.quota))
    if tree is None:
        return ALLOWED
    demand = kinds.scaled(found.ask, target.max_replicas).demand
    request = Request(
        where.quota,
        found.uid,
        found.kind,
        found.namespace,
        found.name,
        demand,
        types_of(found.labels),
        unstated=found.ask.unstated,
    )
    held = journals.tree(tree)
    decision = decide(TreeOverlay(held), request, context.clock.now_us())
    if decision.verdict == "refused":
        message = (
            f"at maxReplicas {target.max_replicas}, {found.kind} {found.name!r} would not fit: "
        )
        return Answer(False, decision.reason, message + sentence(decision, held))
    return Answer(True, "fits")
