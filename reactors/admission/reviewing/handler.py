"""Answers reviews in three steps: classify the question, resolve it against the known state, decide it in its tree.

A dry run is decided and not recorded. For all others the tree's batcher decides, and the answer waits until the decision is
stored.

Source: docs/architecture.md.
"""

from __future__ import annotations

from msgspec.structs import replace

from bus.clock import Clock
from bus.errors import DemandError
from reactors.admission.coverage.owners import Controllers
from reactors.admission.deciding.appending import UNKNOWN, TreeDecisions
from reactors.admission.deciding.messages import (
    ALLOWED,
    TOO_MANY,
    managed_elsewhere,
    sentence,
    warning,
)
from reactors.admission.deciding.rate import Buckets, Rate, asker_of
from reactors.admission.deciding.withdrawing import Withdrawals
from reactors.admission.reviewing.charges import Charge, ChargeDecision
from reactors.admission.reviewing.children import Children
from reactors.admission.reviewing.context import Ahead, Context
from reactors.admission.reviewing.governing import is_governed
from reactors.admission.reviewing.questions import classify
from reactors.admission.reviewing.quotas import Declaration
from reactors.admission.reviewing.resolving import resolve
from reactors.admission.reviewing.scales import UnseenScale, answer_unseen
from reactors.admission.state.state import AdmissionState
from reactors.engine.journals import Journals
from reactors.webhook.review import Answer, Review


class Handler:
    """Answers reviews from memory and the journals. Raises the bus's errors if a decision cannot be stored."""

    def __init__(
        self,
        journals: Journals,
        view: AdmissionState,
        clock: Clock,
        rate: Rate | None = None,
        withdrawals: Withdrawals | None = None,
        controllers: Controllers | None = None,
        ahead: Ahead = lambda where, priority_class: 0,
    ) -> None:
        """``rate`` None: any number of requests. ``withdrawals`` None: decisions without a delivered answer lapse."""
        children = Children(view, clock, controllers or Controllers())
        decisions = TreeDecisions(journals, clock)
        self._context = Context(view, journals, children, decisions, clock, ahead, withdrawals)
        self._buckets = Buckets(rate) if rate else None

    async def __call__(self, review: Review) -> Answer:
        """The answer to one review."""
        try:
            question = classify(review)
            if question is None:
                return ALLOWED
            resolved = resolve(question, review, self._context)
            if isinstance(resolved, Answer):
                return resolved
            if isinstance(resolved, UnseenScale):
                return await answer_unseen(review, self._context)
            if isinstance(resolved, Declaration):
                return await self._declared(resolved, review)
            return await self._charged(resolved, review)
        except DemandError as error:
            if not is_governed(self._context.view, review):
                return ALLOWED
            return Answer(False, "demand-unreadable", str(error), code=422)

    async def _declared(self, declaration: Declaration, review: Review) -> Answer:
        decisions, tree = self._context.decisions, declaration.tree
        decision = await decisions.decide(tree, declaration.decide, review)
        if decision.verdict == "refused":
            return Answer(False, decision.reason, sentence(decision, decisions.tree(tree)))
        return Answer(True, decision.reason)

    async def _charged(self, charge: Charge, review: Review) -> Answer:
        context, where = self._context, charge.where
        tree = context.journals.places.get((where.kind, where.quota), UNKNOWN)
        # Never by an invented name: the requester could have any number of buckets.
        user = asker_of(review.user, is_controller=context.children.controllers.wrote(review))
        asker = (user, where.kind, where.quota if tree != UNKNOWN else "")
        if self._buckets is not None and not self._buckets.takes(asker, context.clock.now_us()):
            return _told(TOO_MANY, charge)
        basis = replace(
            charge.basis, read=context.journals.sequence, refusal=where.refusal,
            mapped_only=context.view.requires_namespaces,
        )  # fmt: skip
        attempt = ChargeDecision(replace(charge, basis=basis), review, context)
        decision = await context.decisions.decide(tree, attempt, review)
        if context.withdrawals is not None:
            context.withdrawals.answered(charge.request.review)
        held = context.decisions.tree(tree)
        if decision.verdict == "refused":
            return _told(Answer(False, decision.reason, sentence(decision, held)), charge)
        warned = warning(decision, held)
        return _told(Answer(True, decision.reason, warnings=(warned,) if warned else ()), charge)


def _told(answer: Answer, charge: Charge) -> Answer:
    """The answer with a note on the object for its reader: the charged owner, or another operator."""
    if charge.managed_by:
        return managed_elsewhere(answer, charge.managed_by)
    if charge.below is None or answer.allowed:
        return answer
    below, holder = charge.below
    made = f"{below.child.kind} {below.child.name!r}"
    message = (
        f"with {made}, what lives below {holder.kind} {holder.name!r} is more than its charge: "
    )
    return replace(answer, message=message + answer.message)
