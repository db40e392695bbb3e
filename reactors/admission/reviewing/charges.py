"""The decisions of a quota's tree: the charge that a review requests, and the objects read in that moment.

Source: ``docs/admission.md``.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from bus.events.admissions import AdmissionDecided, Basis
from bus.kube.kinds import Ask
from projections.quota_trees import TreeOverlay
from reactors.admission.coverage.lives import Undo
from reactors.admission.coverage.objects import Object
from reactors.admission.deciding.decide import Request, decide_review
from reactors.admission.deciding.mapping import QuotaRef
from reactors.admission.reviewing.children import Below, Holder
from reactors.admission.reviewing.context import Context
from reactors.admission.reviewing.landing import UNSEEN, is_doubted, is_moving
from reactors.admission.reviewing.reading import Stored, version_of
from reactors.webhook.review import Review


class Charge(msgspec.Struct, frozen=True):
    """Whether a quota may be charged for a request."""

    where: QuotaRef
    request: Request
    basis: Basis
    #: The object of a scale, as it was observed. Its request may have changed by the decision.
    scales: Object | None = None
    #: A child, and the owner charged for it.
    below: tuple[Below, Holder] | None = None
    #: The request, now and before, of an object from another quota or owner: its pods are charged with it.
    comes: tuple[Ask, Stored] | None = None
    #: The operator of the workload, if it is other software.
    managed_by: str = ""


class ChargeDecision:
    """Decides a charge on a draft of its tree. If another process stored first, it decides again on a newer draft."""

    def __init__(self, charge: Charge, review: Review, context: Context) -> None:
        self._charge, self._review, self._context = charge, review, context
        #: Undoes the count of the child after an earlier attempt.
        self._undo: Undo | None = None

    def __call__(self, draft: TreeOverlay, now_us: int) -> AdmissionDecided:
        """The decision on top of a draft."""
        charge, context = self._charge, self._context
        request = replace(charge.request, basis=self._basis(draft))
        if context.withdrawals is not None and not self._review.dry_run:
            context.withdrawals.asked(request.review, draft.grant(request.quota, request.uid))
        if charge.comes is not None:
            live = context.children.weighs(request.kind, request.uid, *charge.comes)
            request = replace(request, live=live)
        if charge.below is None:
            return decide_review(draft, request, now_us)
        if self._undo is not None:
            self._undo()
        decision, self._undo = self._with_child(*charge.below, draft, request, now_us)
        return decision

    def _basis(self, draft: TreeOverlay) -> Basis:
        charge, context = self._charge, self._context
        is_stale = charge.scales is not None and is_doubted(
            context.journals, context.view, charge.scales, version_of(self._review)
        )
        if charge.below is not None and not is_stale:
            is_stale = is_moving(context.journals, context.view, charge.below[1], draft)
        return replace(charge.basis, refusal=UNSEEN) if is_stale else charge.basis

    def _with_child(
        self, below: Below, holder: Holder, draft: TreeOverlay, request: Request, now_us: int
    ) -> tuple[AdmissionDecided, Undo | None]:
        """The decision on the owner's charge with all live pods below it at this moment, and the undo of the child's count.

        An admitted child counts from now on; without one there is no undo.
        """
        children, grant = self._context.children, draft.grant(request.quota, request.uid)
        live, undo = children.asks(below, holder, grant.charge if grant else {}, self._review)
        decision = decide_review(draft, replace(request, live=live), now_us)
        if decision.verdict == "refused" or self._review.dry_run:
            undo()
            return decision, None
        children.reshape(below)
        return decision, undo
