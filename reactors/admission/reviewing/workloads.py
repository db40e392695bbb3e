"""Reviews of workloads and pods: the quota charged for the object, and the reviews without a charge.

Old sizes are taken from the journals, never from the request (docs/wrong-input.md).

Source: ``docs/admission.md``.
"""

from __future__ import annotations

from msgspec.structs import replace

from bus.events.admissions import Basis
from bus.events.pods import Owner
from bus.kube import kinds
from reactors.admission.coverage.owners import controller_of
from reactors.admission.deciding.daemons import DAEMON_SET, matching
from reactors.admission.deciding.decide import Request
from reactors.admission.deciding.mapping import QuotaRef, label_of, types_of
from reactors.admission.deciding.messages import ALLOWED
from reactors.admission.reviewing.below import resolve_below
from reactors.admission.reviewing.charges import Charge
from reactors.admission.reviewing.children import Holder
from reactors.admission.reviewing.claims import answer_named
from reactors.admission.reviewing.context import Context
from reactors.admission.reviewing.questions import WorkloadChange
from reactors.admission.reviewing.reading import (
    Stored,
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
from reactors.admission.reviewing.stating import newly_unstated, to_state, waits
from reactors.webhook.review import Answer, Review


def resolve_workload(question: WorkloadChange, review: Review, context: Context) -> Answer | Charge:
    """The charge of a workload or a pod, or its answer. Raises DemandError for an unreadable one."""
    kind, object, view = question.kind, review.object or {}, context.view
    metadata = object.get("metadata") or {}
    ask = kinds.asked(kind, object)
    before = stored(kind, review)
    if is_unchanged(ask, review, before):
        return Answer(True, "unchanged")
    uid, name = str(metadata.get("uid", "")), name_of(review, metadata)
    ask, before = with_state(view.state, ask, before, review.namespace, uid)
    if kind.kind == DAEMON_SET and review.operation == "CREATE":
        ask = kinds.scaled(ask, matching(object, view.state.current_nodes()))
    owner = kinds.governing_owner(metadata)
    if (refusal := answer_named(ask, before, owner, review, context)) is not None:
        return refusal
    if owner is not None:
        below = context.children.below(review, kind, uid, name, owner, ask, before)
        if below is not None:
            return resolve_below(below, review, context)
    where = view.place(ask.labels, review.namespace)
    if where is None:
        return ALLOWED
    if is_going(kind, metadata, ask, review, before) or (
        is_less(ask, review, before) and context.decisions.is_closed(where, review.namespace)
    ):
        return Answer(True, "fewer")
    former = context.children.orphaned(review, kind.kind, uid) if owner is None else None
    if former is not None and former.where == where:
        return _orphaned(kind, ask, uid, former, where, review, context)
    request = Request(
        where.quota, uid, kind.kind, review.namespace, name,
        ask.demand, types_of(ask.labels), review.uid, review.operation, version_of(review),
        reshapes(kind, ask, before), ask.priority_class, controller_of(metadata)[1],
        unstated=to_state(ask, review, before), newly_unstated=newly_unstated(ask, before),
    )  # fmt: skip
    if ask.held:
        return _held(ask, before, where, request, context)
    return _charge(kind, ask, before, owner, where, request, review)


def _charge(
    kind: kinds.Kind,
    ask: kinds.Ask,
    before: Stored,
    owner: Owner | None,
    where: QuotaRef,
    request: Request,
    review: Review,
) -> Charge:
    """The charge of a workload in its own right."""
    is_resumed = kind.queues and not ask.suspended and rested(before)
    basis = Basis(label=label_of(ask.labels), is_resumed=is_resumed)
    brings = (ask, before) if comes(ask, owner, review, before) else None
    return Charge(where, request, basis, comes=brings, managed_by=ask.managed_by or "")


def _held(
    ask: kinds.Ask, before: Stored, where: QuotaRef, request: Request, context: Context
) -> Answer:
    """The answer to a workload in the queue of its quota, with its place there."""
    place = 0 if waited(before) else 1 + context.ahead(where, ask.priority_class)
    later, now_us = replace(request, demand=ask.wanted), context.clock.now_us()
    return waits(context.decisions.tree_of(where), later, now_us, where.refusal, place)


def _orphaned(
    kind: kinds.Kind,
    ask: kinds.Ask,
    uid: str,
    owner: Holder,
    where: QuotaRef,
    review: Review,
    context: Context,
) -> Answer | Charge:
    """The move of a charge when the garbage collector orphans an object: the object takes its charge along."""
    live = context.children.weighs(kind.kind, uid, ask)
    if not (ask.demand or live):
        return Answer(True, "fits")
    request = Request(
        where.quota, uid, kind.kind, review.namespace, review.name, ask.demand,
        types_of(ask.labels), review.uid, review.operation, version_of(review), live=live,
        owner=owner.uid,
    )  # fmt: skip
    return Charge(where, request, Basis(label=label_of(ask.labels), is_orphaned=True))
