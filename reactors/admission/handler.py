"""A review in, an answer out: which decision is asked for, at which desk, and what the asker is told.

Order: what hangs below a governed owner passes if that owner is charged; what names no quota
passes; a dry run is decided and not recorded; everything else is decided at its tree's desk and
answered when the decision is stored. Old sizes are taken from the journals, never from the request
(``reliability.md`` D7).

Source: issue 4, item 3; ``design/cluster.md`` (what a webhook sees); house.md section 5.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from bus import kinds
from bus.clock import Clock
from bus.errors import DemandError, MalformedJsonError, ObservationError
from bus.events.admissions import AdmissionDecided, QuotaDeclared
from bus.events.pods import Owner
from bus.events.quotas import QuotaObserved
from bus.sources import quotas
from bus.sources.labels import LabelPolicy
from bus.sources.records import Record
from projections import histories
from projections.admissions import Draft, charged
from projections.admissions.shape import BUSINESS, ELASTIC, LANDED_US
from reactors.admission.decide import Request, covers, decide
from reactors.admission.declare import Proposal, declare, declare_elastic
from reactors.admission.desk import Desk
from reactors.admission.mapping import SYSTEM_OWNERS, Place, tree_of, types_of
from reactors.admission.messages import sentence, warning
from reactors.admission.rate import Buckets, Rate
from reactors.admission.view import COVERING, Object, View, spec_of
from reactors.engine.journals import Journals
from reactors.webhook.review import Answer, Review

ALLOWED = Answer(True, "not-governed")
QUOTAS = {
    ("bursar.io", "bizgroupresourcequotas"): BUSINESS,
    ("scheduling.sigs.k8s.io", "elasticquotas"): ELASTIC,
}
AUTOSCALERS = ("autoscaling", "horizontalpodautoscalers")


class Handler:
    """Answers reviews from memory and the journals. Raises what the bus raises when a decision cannot be stored."""

    def __init__(
        self, journals: Journals, view: View, clock: Clock, rate: Rate | None = None
    ) -> None:
        """``rate`` None: as many asks as come."""
        self._buckets = Buckets(rate) if rate else None
        self._journals = journals
        self._view = view
        self._clock = clock
        self._desks: dict[str, Desk] = {}

    async def __call__(self, review: Review) -> Answer:
        """The answer to one review."""
        try:
            kind = QUOTAS.get((review.group, review.resource))
            if kind is not None:
                return ALLOWED if review.subresource else await self._quota(review, kind)
            if (review.group, review.resource) == AUTOSCALERS:
                return self._autoscaler(review)
            return await self._workload(review)
        except DemandError as error:
            return Answer(False, "demand-unreadable", str(error), code=422)

    # workloads

    async def _workload(self, review: Review) -> Answer:
        kind = kinds.served(review.group, review.version, review.resource)
        if kind is None or review.object is None:
            return ALLOWED
        if review.subresource == "scale":
            return await self._scaled(review, kind)
        if review.subresource not in ("", "resize"):
            return ALLOWED
        metadata = review.object.get("metadata") or {}
        ask = kinds.asked(kind, review.object)
        owner = kinds.governing_owner(metadata)
        if owner is not None:
            return self._covered(owner, ask, review)
        where = self._view.place(ask.labels, review.namespace)
        if where is None or _is_system(metadata):
            return ALLOWED
        if ask.held:
            # It asks for nothing until the queue starts it; that it waits is seen.
            return Answer(True, "held")
        name = review.name or str(metadata.get("generateName", ""))
        request = Request(
            where.quota, str(metadata.get("uid", "")), kind.kind, review.namespace, name,
            ask.demand, types_of(ask.labels), review.uid, review.operation, _version(review),
            _reshapes(kind, ask, review),
        )  # fmt: skip
        is_resumed = kind.queues and not ask.suspended and _rested(kind, review)
        return await self._decided(where, request, review, is_resumed=is_resumed)

    async def _scaled(self, review: Review, kind: kinds.Kind) -> Answer:
        """What it was last seen to ask for, with other replicas.

        A scale does not say what one replica asks for. Where that was just changed, it waits until the change is seen.
        """
        scale = kinds.scale_of(review.object or {})
        found = self._view.objects.get(scale.uid)
        if found is None or found.ask.per_replica is None:
            return self._unseen(review, scale)
        if self._is_doubted(found, _version(review)):
            return self._unseen(review, scale)
        if found.owner is not None and found.owner.kind in COVERING:
            return ALLOWED
        where = self._view.place(found.labels, review.namespace)
        if where is None:
            return ALLOWED
        demand = kinds.scaled(found.ask, scale.replicas).demand
        request = Request(
            where.quota, scale.uid, kind.kind, review.namespace, review.name,
            demand, types_of(found.labels), review.uid, review.operation, _version(review),
        )  # fmt: skip
        # Another process may have admitted such a change before this one is stored.
        return await self._decided(where, request, review, scales=found)

    def _is_doubted(self, found: Object, version: str) -> bool:
        """Whether ``version`` of the object may differ from what was seen of it by more than its replicas."""
        if found.version == version:
            return False
        for name in self._journals.holders.get(found.uid, ()):
            tree = self._journals.tree(name)
            for quota in tree.holders[found.uid]:
                grant = tree.nodes[quota].grants[found.uid]
                is_passed = histories.precedes(grant.reshaped, 0, found.version, 0)
                is_listed = found.listed_us >= grant.asked_us + LANDED_US
                if grant.reshaped and not (is_passed or is_listed):
                    return True
        return False

    def _unseen(self, review: Review, scale: kinds.Scale) -> Answer:
        before = kinds.scale_of(review.old_object or {})
        if review.old_object is not None and scale.replicas <= before.replicas:
            return ALLOWED
        said = f"{review.resource} {review.name!r} was not seen as it is now: try again in a moment"
        return Answer(False, "object-unseen", f"{said} (object-unseen)", code=409)

    def _covered(self, owner: Owner, ask: kinds.Ask, review: Review) -> Answer:
        """What an owner answers for passes if the top owner is charged with at least as much.

        An owner that was not seen yet was reviewed a moment ago itself; what it makes is charged
        when it is seen, if it was not.
        """
        top = self._view.top(owner)
        if top is None:
            return Answer(True, "owner-unseen")
        where = self._view.place(top.labels, top.namespace)
        if where is None:
            return ALLOWED
        held = self._held(top, where)
        if review.subresource == "resize":
            # The owner is charged for pods as its template has them.
            held = charged(top.ask.per_replica or {}, {})
        if top.namespace == review.namespace and held is not None:
            if all(amount <= held.get(key, 0) for key, amount in ask.demand.items()):
                return Answer(True, "covered")
        said = f"its owner, {top.kind} {top.name!r}, is not charged with that much in quota {where.quota!r}"
        return Answer(False, "not-covered", f"{said} (not-covered)")

    def _held(self, top: Object, where: Place) -> dict[str, int] | None:
        tree = self._journals.trees.get(self._journals.places.get((where.kind, where.quota), ""))
        node = tree.nodes.get(where.quota) if tree else None
        grant = node.grants.get(top.uid) if node else None
        return grant.charge if grant else None

    async def _decided(
        self,
        where: Place,
        request: Request,
        review: Review,
        *,
        is_resumed: bool = False,
        scales: Object | None = None,
    ) -> Answer:
        unknown = f"biz/{where.quota}" if where.kind == BUSINESS else "elastic/"
        tree = self._journals.places.get((where.kind, where.quota), unknown)
        if self._buckets and not self._buckets.takes(where.quota, self._clock.now_us()):
            said = f"too many workloads of quota {where.quota!r} ask at once: try again in a moment"
            return Answer(False, "too-many-requests", f"{said} (too-many-requests)", code=429)

        def question(draft: Draft, now_us: int) -> AdmissionDecided:
            refusal = where.refusal
            if scales is not None and self._is_doubted(scales, request.version):
                refusal = "object-unseen"
            if is_resumed and not refusal and not covers(draft, request):
                # Else whoever resumes his own would pass all that wait.
                node = draft.node(request.quota)
                refusal = "queued" if node is not None and node.spec.queue.hold else ""
            return decide(draft, request, now_us, refusal)

        decision = await self._answer(tree, question, review)
        assert isinstance(decision, AdmissionDecided)
        held = self._journals.tree(tree)
        if decision.verdict == "refused":
            return Answer(False, decision.reason, sentence(decision, held))
        warned = warning(decision, held)
        return Answer(True, decision.reason, warnings=(warned,) if warned else ())

    async def _answer(
        self,
        tree: str,
        question: Callable[[Draft, int], AdmissionDecided | QuotaDeclared],
        review: Review,
    ) -> AdmissionDecided | QuotaDeclared:
        if review.dry_run:
            return question(Draft(self._journals.tree(tree)), self._clock.now_us())
        desk = self._desks.get(tree)
        if desk is None:
            desk = self._desks[tree] = Desk(self._journals, self._clock, tree)
        return await desk.ask(question, review.uid)

    def _autoscaler(self, review: Review) -> Answer:
        """Whether its target would fit at ``maxReplicas``. Nothing is charged: each scale asks for itself."""
        if review.object is None or review.subresource:
            return ALLOWED
        target = kinds.target_of(review.object)
        found = self._view.named(target.kind, review.namespace, target.name)
        where = self._view.place(found.labels, found.namespace) if found else None
        if found is None or found.ask.per_replica is None or where is None:
            return ALLOWED
        tree = self._journals.places.get((where.kind, where.quota))
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
        )
        held = self._journals.tree(tree)
        decision = decide(Draft(held), request, self._clock.now_us())
        if decision.verdict == "refused":
            said = (
                f"at maxReplicas {target.max_replicas}, {found.kind} {found.name!r} would not fit: "
            )
            return Answer(False, decision.reason, said + sentence(decision, held))
        return Answer(True, "fits")

    # quotas

    async def _quota(self, review: Review, kind: str) -> Answer:
        new = observed(review.object, kind)
        old = observed(review.old_object, kind)
        if new is not None and new.problem:
            return Answer(False, "quota-invalid", f"{new.problem} (quota-invalid)", code=422)
        known = new or old
        if known is None:
            return ALLOWED
        proposal = Proposal(
            review.operation, known.name, known.uid, known.parent,
            spec_of(new) if new is not None else None, review.uid, old.parent if old else "",
        )  # fmt: skip
        answer = declare if kind == BUSINESS else declare_elastic

        def question(draft: Draft, now_us: int) -> QuotaDeclared:
            return answer(draft, proposal, now_us)

        tree = tree_of(self._journals.places, known)
        decision = await self._answer(tree, question, review)
        if decision.verdict == "refused":
            return Answer(False, decision.reason, sentence(decision, self._journals.tree(tree)))
        return Answer(True, decision.reason)


def _version(review: Review) -> str:
    """The version that an update would change."""
    metadata = (review.object or {}).get("metadata") or {}
    # "?" is later than every version: then only a complete list can settle the ask.
    return str(metadata.get("resourceVersion", "?")) if review.operation == "UPDATE" else ""


def _reshapes(kind: kinds.Kind, ask: kinds.Ask, review: Review) -> bool:
    """Whether it changes anything that a scale is reckoned with but the replicas."""
    if not kind.scales or review.old_object is None:
        return False
    try:
        before = kinds.asked(kind, review.old_object)
    except DemandError:
        return True
    return _shape(before) != _shape(ask)


def _shape(ask: kinds.Ask) -> tuple[object, ...]:
    rest = kinds.scaled(ask, 0).demand if ask.per_replica is not None else ask.demand
    return rest, ask.per_replica, ask.labels, ask.suspended


def _is_system(metadata: dict[str, Any]) -> bool:
    owners = metadata.get("ownerReferences") or ()
    return any(o.get("controller") is True and o.get("kind") in SYSTEM_OWNERS for o in owners)


def _rested(kind: kinds.Kind, review: Review) -> bool:
    """Whether the object was suspended before this change."""
    before = review.old_object
    return before is not None and bool(kinds.asked(kind, before).wanted)


def observed(object: dict[str, Any] | None, kind: str) -> QuotaObserved | None:
    """A quota's object as the source would say it; None where there is none.

    Raises DemandError for one that no source could say.
    """
    if object is None:
        return None
    # What is being created has no version yet.
    metadata = {"resourceVersion": "0", **object.get("metadata", {})}
    raw = msgspec.json.encode({**object, "metadata": metadata})
    record = Record("ADDED", raw, 0, "webhook", "webhook")
    try:
        event = quotas.translate(record, LabelPolicy(), kind=kind)
    except (MalformedJsonError, ObservationError) as error:
        raise DemandError(path="", reason=str(error)) from error
    return QuotaObserved.read(event)
