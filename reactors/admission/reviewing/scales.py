"""Reviews of a scale: the observed request of the workload, with other replicas.

A Scale object contains no per-replica request. After an unobserved change of that request, a scale up is rejected until the
change is observed.

Source: ``docs/admission.md``.
"""

from __future__ import annotations

import msgspec

from bus.events.admissions import Basis, Child
from bus.kube import kinds
from reactors.admission.coverage.objects import Object, counts_of
from reactors.admission.deciding.decide import Request
from reactors.admission.deciding.mapping import SEEN, types_of
from reactors.admission.deciding.messages import ALLOWED
from reactors.admission.reviewing.below import resolve_below
from reactors.admission.reviewing.charges import Charge
from reactors.admission.reviewing.children import Below
from reactors.admission.reviewing.context import Context
from reactors.admission.reviewing.governing import is_governed
from reactors.admission.reviewing.landing import UNSEEN, is_doubted
from reactors.admission.reviewing.questions import ScaleChange
from reactors.admission.reviewing.reading import version_of
from reactors.admission.reviewing.stating import is_up
from reactors.webhook.review import Answer, Review


class UnseenScale(msgspec.Struct, frozen=True):
    """A scale up of an object without an observation of its present version. No quota is known to govern it so far."""


def resolve_scale(
    question: ScaleChange, review: Review, context: Context
) -> Answer | Charge | UnseenScale:
    """The charge of a scale, or its answer."""
    scale, view, version = kinds.scale_of(review.object or {}), context.view, version_of(review)
    found = view.objects.get(scale.uid)
    is_known = found is not None and found.ask.per_replica is not None
    if found is None or not is_known or is_doubted(context.journals, view, found, version):
        if not is_up(scale, review):
            return ALLOWED
        return _unseen(review) if is_governed(view, review) else UnseenScale()
    asks = kinds.scaled(found.ask, scale.replicas)
    if found.owner is not None and view.coverage.covered(found) is not False:
        counts = counts_of(question.kind.kind, asks)
        child = Child(question.kind.kind, found.name, found.uid, version, found.owner.uid, counts)
        below = Below(found.owner, child, _scaled_from(found, review))
        return resolve_below(below, review, context, found if found.version != version else None)
    where = view.place(found.labels, review.namespace)
    if where is None:
        return ALLOWED
    if context.decisions.is_closed(where, review.namespace) and not is_up(scale, review):
        return Answer(True, "fewer")
    request = Request(
        where.quota, scale.uid, question.kind.kind, review.namespace, review.name,
        asks.demand, types_of(found.labels), review.uid, review.operation, version,
        priority_class=found.ask.priority_class, owner=found.owner.uid if found.owner else "",
        unstated=found.ask.unstated if is_up(scale, review) else {},
    )  # fmt: skip
    # Another process may have admitted such a change before this one is stored.
    return Charge(where, request, Basis(label=SEEN, replicas=scale.replicas), scales=found)


def _scaled_from(found: Object, review: Review) -> dict[str, int] | None:
    """The counted amounts below an owner before a scale; None if the review lacks the number of replicas."""
    if review.old_object is None:
        return None
    return counts_of(
        found.kind, kinds.scaled(found.ask, kinds.scale_of(review.old_object).replicas)
    )


async def answer_unseen(review: Review, context: Context) -> Answer:
    """The answer to an :class:`UnseenScale`: it passes if no quota governs it at the end of the journals.

    Another process may have charged the object a moment ago. Raises BusUnavailableError if the bus does not answer, like a
    decision that cannot be stored.
    """
    await context.journals.caught_up()
    return _unseen(review) if is_governed(context.view, review) else ALLOWED


def _unseen(review: Review) -> Answer:
    """The refusal of a scale up of an object without an observation of its present version."""
    message = f"{review.resource} {review.name!r} was not seen as it is now: try again in a moment"
    return Answer(False, UNSEEN, f"{message} ({UNSEEN})", code=409)
