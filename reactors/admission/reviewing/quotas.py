"""The answer to a review of a quota itself: whether its limits may be declared in its tree, or the quota deleted.

Source: docs/quotas.md; ``docs/admission.md``.
"""

from __future__ import annotations

import msgspec

from bus.events.admissions import QuotaDeclared
from projections.quota_trees import TreeOverlay
from projections.quota_trees.shape import BUSINESS, ELASTIC
from reactors.admission.deciding.declare import Proposal, declare, declare_elastic
from reactors.admission.deciding.mapping import tree_of
from reactors.admission.deciding.messages import ALLOWED, sentence
from reactors.admission.reviewing.context import Context
from reactors.admission.reviewing.questions import QuotaChange
from reactors.admission.reviewing.reading import limits_of, observed
from reactors.admission.state.state import AdmissionState, spec_of
from reactors.engine.journals import Journals
from reactors.webhook.outline import Outline
from reactors.webhook.review import Answer, Review

_RULES = {BUSINESS: declare, ELASTIC: declare_elastic}


def answer_deletion(
    outline: Outline, kind: str, journals: Journals, view: AdmissionState
) -> Answer:
    """The answer to a deletion with only an outline: by the quota's name and namespace, for any bytes.

    It is not recorded, as the outline may end before ``dryRun``. A deletion of a collection has no name: it is refused if
    one quota of its namespace may not be deleted.
    """
    for seen in view.quotas.values():
        if seen.kind != kind or seen.namespace != outline.namespace:
            continue
        tree = journals.trees.get(journals.places.get((kind, seen.name), ""))
        if tree is None or outline.name not in ("", seen.name):
            continue
        proposal = Proposal("DELETE", seen.name, seen.uid, seen.parent, None, outline.uid)
        decision = _RULES[kind](TreeOverlay(tree), proposal, 0)
        if decision.verdict == "refused":
            return Answer(False, decision.reason, sentence(decision, tree))
    return ALLOWED


class Declaration(msgspec.Struct, frozen=True):
    """Whether a tree takes a quota's new limits, or its deletion."""

    tree: str
    kind: str
    proposal: Proposal

    def decide(self, draft: TreeOverlay, now_us: int) -> QuotaDeclared:
        """The decision on top of a draft of the tree."""
        return _RULES[self.kind](draft, self.proposal, now_us)


def resolve_quota(question: QuotaChange, review: Review, context: Context) -> Answer | Declaration:
    """The declaration of a quota, or its answer. Raises DemandError for an unreadable one."""
    new = observed(review.object, question.kind)
    old = observed(review.old_object, question.kind)
    if new is not None and new.problem:
        return Answer(False, "quota-invalid", f"{new.problem} (quota-invalid)", code=422)
    known = new or old
    if known is None or (question.kind == ELASTIC and limits_of(new) == limits_of(old)):
        # Other labels and annotations, our own among them, limit nothing.
        return ALLOWED
    proposal = Proposal(
        review.operation, known.name, known.uid, known.parent,
        spec_of(new) if new is not None else None, review.uid, old.parent if old else "",
    )  # fmt: skip
    return Declaration(tree_of(context.journals.places, known), question.kind, proposal)
