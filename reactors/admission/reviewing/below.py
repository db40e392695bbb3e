"""Reviews of objects below an owner: one passes if all live pods there, with this object, fit the owner's charge.

Source: ``docs/admission.md`` ("Objects below an owner").
"""

from __future__ import annotations

from bus.events.admissions import Basis
from reactors.admission.coverage.objects import Object
from reactors.admission.deciding.decide import Request
from reactors.admission.deciding.mapping import SEEN, QuotaRef
from reactors.admission.deciding.messages import ALLOWED
from reactors.admission.reviewing.charges import Charge
from reactors.admission.reviewing.children import Below
from reactors.admission.reviewing.context import Context
from reactors.admission.reviewing.landing import is_moving
from reactors.engine.journals import Journals
from reactors.webhook.review import Answer, Review

_COVERED = Answer(True, "covered")


def resolve_below(
    below: Below, review: Review, context: Context, scales: Object | None = None
) -> Answer | Charge:
    """The owner's charge with the child, or an answer without a decision.

    An owner without a quota needs none. Otherwise the journal decides the owner's charge in two cases: pods admitted
    by other processes could be too many with this one, or no controller makes the child. The journal has one order of requests.
    An unobserved owner was reviewed itself a moment ago. A child made by its controller counts, and is
    charged when it is observed.
    The journal records changes of one replica's request, and scales of ``scales``, an object observed in an older version.
    """
    children, journals = context.children, context.journals
    if not (below.reshapes or children.rises(below)):
        return _COVERED
    holder = children.holder(below.owner.uid)
    if (refusal := children.unheld(below, holder, review)) is not None:
        return refusal
    where = holder.where if holder is not None else None
    if holder is not None and where is None:
        return ALLOWED
    is_asked = scales is not None or children.is_asked(below, review)
    # Counted before the check, so the check includes it.
    undo = children.expect(below)
    if holder is None or where is None:
        answer = Answer(True, "owner-unseen")
    else:
        most = None if is_asked else children.most(below, holder)
        fits = most is not None and _holds(journals, holder.uid, where, most)
        if not fits or is_moving(journals, context.view, holder):
            undo()
            request = Request(
                where.quota, holder.uid, holder.kind, holder.namespace, holder.name, holder.demand,
                holder.types, review.uid, review.operation, reshapes=below.reshapes, child=below.child,
            )  # fmt: skip
            return Charge(where, request, Basis(label=SEEN), scales=scales, below=(below, holder))
        answer = _COVERED
    if review.dry_run:
        undo()
    return answer


def _holds(journals: Journals, uid: str, where: QuotaRef, need: dict[str, int]) -> bool:
    """Whether the quota is charged with as much for the object ``uid``."""
    named = (where.kind, where.quota)
    charges = [g.charge for node, g in journals.grants(uid) if (node.kind, node.name) == named]
    return any(all(n <= one.get(key, 0) for key, n in need.items()) for one in charges)
