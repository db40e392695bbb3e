"""Handles a review: chooses the decision to make, the batcher that makes it, and the answer.

Order: what hangs below a governed owner passes if that owner is charged for all that lives there; what names no quota
passes; a dry run is decided and not recorded; everything else is decided by its tree's batcher and
answered when the decision is stored. Old sizes are taken from the journals, never from the request
(docs/wrong-input.md).

Source: docs/architecture.md.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from msgspec.structs import replace

from bus.clock import Clock
from bus.errors import DemandError
from bus.events.admissions import AdmissionDecided, Basis, Child
from bus.kube import kinds
from projections.quota_trees import TreeOverlay
from reactors.admission.coverage.lives import Undo
from reactors.admission.coverage.objects import Object, counts_of
from reactors.admission.coverage.owners import Controllers, controller_of, wrote_node
from reactors.admission.deciding.appending import UNKNOWN, Decisions
from reactors.admission.deciding.daemons import DAEMON_SET, matching
from reactors.admission.deciding.decide import Request, decide_review
from reactors.admission.deciding.mapping import SEEN, QuotaRef, label_of, types_of
from reactors.admission.deciding.messages import (
    ALLOWED,
    TOO_MANY,
    managed_elsewhere,
    sentence,
    warning,
)
from reactors.admission.deciding.rate import Buckets, Rate, asker_of
from reactors.admission.deciding.withdrawing import Withdrawals
from reactors.admission.reviewing.autoscalers import AUTOSCALERS, answer_autoscaler
from reactors.admission.reviewing.children import Below, Children, Holder
from reactors.admission.reviewing.claims import CLAIMS, TEMPLATES, answer_named, asked_of_claims
from reactors.admission.reviewing.governing import is_governed
from reactors.admission.reviewing.moves import is_moving
from reactors.admission.reviewing.quotas import QUOTAS, answer_quota
from reactors.admission.reviewing.reading import (
    comes,
    is_going,
    is_less,
    is_unchanged,
    name_of,
    reshapes,
    rested,
    stored,
    version_of,
    waited,
    with_state,
)
from reactors.admission.reviewing.scales import UNSEEN, answer_unseen, is_doubted, scaled_from
from reactors.admission.reviewing.stating import is_up, newly_unstated, to_state, waits
from reactors.admission.state.state import AdmissionState
from reactors.engine.journals import Journals
from reactors.webhook.review import Answer, Review

Ahead = Callable[[QuotaRef, str], int]
"""How many wait in a quota's queue before a workload of this priority class that is made now."""


class Handler:
    """Answers reviews from memory and the journals. Raises what the bus raises when a decision cannot be stored."""

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
        """``rate`` None: as many asks as come. ``withdrawals`` None: what nobody heard of lapses."""
        self._ahead = ahead
        self._children = Children(view, clock, controllers or Controllers())
        self._named = partial(answer_named, view, self._children, journals)
        self._buckets = Buckets(rate) if rate else None
        self._journals = journals
        self._view = view
        self._clock = clock
        self._withdrawals = withdrawals
        self._decisions = Decisions(journals, clock)

    async def __call__(self, review: Review) -> Answer:
        """The answer to one review."""
        try:
            kind = QUOTAS.get((review.group, review.resource))
            if kind is not None:
                if review.subresource:
                    return ALLOWED
                return await answer_quota(review, kind, self._journals, self._decisions)
            if (review.group, review.resource) == AUTOSCALERS:
                return answer_autoscaler(review, self._view, self._journals, self._clock.now_us())
            if (review.group, review.resource) in (CLAIMS, TEMPLATES):
                found = asked_of_claims(review, self._view, self._children, self._journals)
                return found if isinstance(found, Answer) else await self._decided(*found)
            return await self._workload(review)
        except DemandError as error:
            if not is_governed(self._view, review):
                return ALLOWED
            return Answer(False, "demand-unreadable", str(error), code=422)

    async def _workload(self, review: Review) -> Answer:
        kind = kinds.served(review.group, review.version, review.resource)
        if kind is None or review.object is None:
            return ALLOWED
        if review.subresource == "scale":
            return await self._scaled(review, kind)
        if review.subresource not in ("", "resize") or wrote_node(review):
            return ALLOWED
        metadata = review.object.get("metadata") or {}
        ask = kinds.asked(kind, review.object)
        before = stored(kind, review)
        if is_unchanged(ask, review, before):
            return Answer(True, "unchanged")
        uid, name = str(metadata.get("uid", "")), name_of(review, metadata)
        ask, before = with_state(self._view.state, ask, before, review.namespace, uid)
        if kind.kind == DAEMON_SET and review.operation == "CREATE":
            ask = kinds.scaled(ask, matching(review.object, self._view.state.current_nodes()))
        owner = kinds.governing_owner(metadata)
        if (refusal := self._named(ask, before, owner, review)) is not None:
            return refusal
        if owner is not None:
            below = self._children.below(review, kind, uid, name, owner, ask, before)
            if below is not None:
                return await self._below(below, review)
        where = self._view.place(ask.labels, review.namespace)
        if where is None:
            return ALLOWED
        if is_going(kind, metadata, ask, review, before) or (
            is_less(ask, review, before) and self._decisions.is_closed(where, review.namespace)
        ):
            return Answer(True, "fewer")
        former = self._children.orphaned(review, kind.kind, uid) if owner is None else None
        if former is not None and former.where == where:
            return await self._orphaned(kind, ask, uid, former, where, review)
        request = Request(
            where.quota, uid, kind.kind, review.namespace, name,
            ask.demand, types_of(ask.labels), review.uid, review.operation, version_of(review),
            reshapes(kind, ask, before), ask.priority_class, controller_of(metadata)[1],
            unstated=to_state(ask, review, before), newly_unstated=newly_unstated(ask, before),
        )  # fmt: skip
        if ask.held:
            tree = self._decisions.tree_of(where)
            place = 0 if waited(before) else 1 + self._ahead(where, ask.priority_class)
            later = replace(request, demand=ask.wanted)
            return waits(tree, later, self._clock.now_us(), where.refusal, place)
        is_resumed = kind.queues and not ask.suspended and rested(before)
        basis = Basis(label=label_of(ask.labels), is_resumed=is_resumed)
        brings = partial(self._children.weighs, kind.kind, uid, ask, before)
        is_coming = comes(ask, owner, review, before)
        answer = await self._decided(
            where, request, review, basis, brings=brings if is_coming else None
        )
        return managed_elsewhere(answer, ask.managed_by) if ask.managed_by else answer

    async def _scaled(self, review: Review, kind: kinds.Kind) -> Answer:
        """What it was last seen to ask for, with other replicas.

        A scale does not say what one replica asks for. Where that was just changed, it waits until the change is seen.
        """
        scale = kinds.scale_of(review.object or {})
        found = self._view.objects.get(scale.uid)
        is_known = found is not None and found.ask.per_replica is not None
        version = version_of(review)
        if found is None or not is_known or is_doubted(self._journals, self._view, found, version):
            return await answer_unseen(self._journals, self._view, review, scale)
        asks = kinds.scaled(found.ask, scale.replicas)
        if found.owner is not None and self._view.coverage.covered(found) is not False:
            counts = counts_of(kind.kind, asks)
            child = Child(kind.kind, found.name, found.uid, version, found.owner.uid, counts)
            below = Below(found.owner, child, scaled_from(found, review))
            return await self._below(below, review, found if found.version != version else None)
        where = self._view.place(found.labels, review.namespace)
        if where is None:
            return ALLOWED
        if self._decisions.is_closed(where, review.namespace) and not is_up(scale, review):
            return Answer(True, "fewer")
        demand = asks.demand
        request = Request(
            where.quota, scale.uid, kind.kind, review.namespace, review.name,
            demand, types_of(found.labels), review.uid, review.operation, version,
            priority_class=found.ask.priority_class, owner=found.owner.uid if found.owner else "",
            unstated=found.ask.unstated if is_up(scale, review) else {},
        )  # fmt: skip
        # Another process may have admitted such a change before this one is stored.
        basis = Basis(label=SEEN, replicas=scale.replicas)
        return await self._decided(where, request, review, basis, scales=found)

    async def _below(self, below: Below, review: Review, scales: Object | None = None) -> Answer:
        """What hangs below an owner passes if all that lives there, this one included, fits the owner's charge.

        An owner without a quota is asked for nothing. Else that is an ask of the owner, as where pods that another process lets
        pass could be too many with this one, and of what no controller makes: its journal has them in one order. Where the owner
        was not seen yet, it was reviewed a moment ago itself; what a controller makes below it counts, and is charged when it is
        seen.
        The journal records changes of one replica's request, and scales of ``scales``, an object observed in an older version.
        """
        if not (below.reshapes or self._children.rises(below)):
            return Answer(True, "covered")
        holder = self._children.holder(below.owner.uid)
        if (refusal := self._children.unheld(below, holder, review)) is not None:
            return refusal
        where = holder.where if holder is not None else None
        if holder is not None and where is None:
            return ALLOWED
        is_asked = scales is not None or self._children.is_asked(below, review)
        undo = self._children.expect(below)
        if holder is None or where is None:
            if review.dry_run:
                undo()
            return Answer(True, "owner-unseen")
        most = None if is_asked else self._children.most(below, holder)
        fits = most is not None and _holds(self._journals, holder.uid, where, most)
        if fits and not is_moving(self._journals, self._view, holder):
            if review.dry_run:
                undo()
            return Answer(True, "covered")
        undo()
        request = Request(
            where.quota, holder.uid, holder.kind, holder.namespace, holder.name, holder.demand,
            holder.types, review.uid, review.operation, reshapes=below.reshapes, child=below.child,
        )  # fmt: skip
        asks = (where, request, review, Basis(label=SEEN))
        answer = await self._decided(*asks, scales=scales, below=(below, holder))
        if answer.allowed:
            return answer
        made = f"{below.child.kind} {below.child.name!r}"
        message = (
            f"with {made}, what lives below {holder.kind} {holder.name!r} is more than its charge: "
        )
        return replace(answer, message=message + answer.message)

    async def _orphaned(
        self,
        kind: kinds.Kind,
        ask: kinds.Ask,
        uid: str,
        owner: Holder,
        where: QuotaRef,
        review: Review,
    ) -> Answer:
        """The garbage collector takes an object from an owner that goes without it: it takes its charge along."""
        live = self._children.weighs(kind.kind, uid, ask)
        if not (ask.demand or live):
            return Answer(True, "fits")
        request = Request(
            where.quota, uid, kind.kind, review.namespace, review.name, ask.demand,
            types_of(ask.labels), review.uid, review.operation, version_of(review), live=live,
            owner=owner.uid,
        )  # fmt: skip
        basis = Basis(label=label_of(ask.labels), is_orphaned=True)
        return await self._decided(where, request, review, basis)

    async def _decided(
        self,
        where: QuotaRef,
        request: Request,
        review: Review,
        basis: Basis,
        *,
        scales: Object | None = None,
        below: tuple[Below, Holder] | None = None,
        brings: Callable[[], dict[str, int]] | None = None,
    ) -> Answer:
        """``brings`` gives what lives below the object at the moment of the decision: it is charged with the object."""
        tree = self._journals.places.get((where.kind, where.quota), UNKNOWN)
        # Never by a name that the asker may invent: he would have as many buckets as he likes.
        user = asker_of(review.user, is_controller=self._children.controllers.wrote(review))
        asker = (user, where.kind, where.quota if tree != UNKNOWN else "")
        if self._buckets is not None and not self._buckets.takes(asker, self._clock.now_us()):
            return TOO_MANY

        basis = replace(
            basis, read=self._journals.sequence, refusal=where.refusal, mapped_only=self._view.requires_namespaces,
        )  # fmt: skip
        undo: Undo | None = None

        def question(draft: TreeOverlay, now_us: int) -> AdmissionDecided:
            nonlocal undo
            known = basis
            if self._withdrawals is not None and not review.dry_run:
                before = draft.grant(request.quota, request.uid)
                self._withdrawals.asked(request.review, before)
            if scales is not None and is_doubted(
                self._journals, self._view, scales, version_of(review)
            ):
                known = replace(basis, refusal=UNSEEN)
            if below is not None and is_moving(self._journals, self._view, below[1], draft):
                known = replace(basis, refusal=UNSEEN)
            live = brings() if brings is not None else request.live
            asks = replace(request, basis=known, live=live)
            if below is not None:
                if undo is not None:
                    # An earlier try lost the race for the journal: it was not stored.
                    undo()
                decision, undo = _raised(self._children, draft, asks, review, below, now_us)
                return decision
            return decide_review(draft, asks, now_us)

        decision = await self._decisions.decide(tree, question, review)
        assert isinstance(decision, AdmissionDecided)
        if self._withdrawals is not None:
            self._withdrawals.answered(request.review)
        held = self._decisions.tree(tree)
        if decision.verdict == "refused":
            return Answer(False, decision.reason, sentence(decision, held))
        warned = warning(decision, held)
        return Answer(True, decision.reason, warnings=(warned,) if warned else ())


def _raised(
    children: Children,
    draft: TreeOverlay,
    request: Request,
    review: Review,
    below: tuple[Below, Holder],
    now_us: int,
) -> tuple[AdmissionDecided, Undo | None]:
    """The decision on the owner's charge with all that lives below it at this moment, and the undo of the child's count.

    An admitted child counts from now on; without one there is no undo.
    """
    grant = draft.grant(request.quota, request.uid)
    live, undo = children.asks(*below, grant.charge if grant else {}, review)
    decision = decide_review(draft, replace(request, live=live), now_us)
    if decision.verdict == "refused" or review.dry_run:
        undo()
        return decision, None
    children.reshape(below[0])
    return decision, undo


def _holds(journals: Journals, uid: str, where: QuotaRef, need: dict[str, int]) -> bool:
    """Whether the quota is charged with as much for the object ``uid``."""
    named = (where.kind, where.quota)
    charges = [g.charge for node, g in journals.grants(uid) if (node.kind, node.name) == named]
    return any(all(n <= one.get(key, 0) for key, n in need.items()) for one in charges)
