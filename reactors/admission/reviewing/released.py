"""The check whether a review is the start of a released workload. Pure, and total: it raises for no review.

A release is decided, charged and stored before the workload is started. So the review of the start adds nothing, and passes
even without a decision in time: Bursar's own writes never depend on the load of its webhook.

Source: ``docs/queues.md``.
"""

from __future__ import annotations

from bus.errors import DemandError
from bus.kube import kinds
from projections.quota_trees import TreeOverlay
from reactors.admission.deciding.decide import Request, covers, unspecified
from reactors.admission.deciding.mapping import types_of
from reactors.admission.reviewing.reading import Stored, stored, waited, with_state
from reactors.admission.reviewing.stating import newly_unstated
from reactors.admission.state.state import AdmissionState
from reactors.engine.journals import Journals
from reactors.webhook.review import Review


def is_released(journals: Journals, view: AdmissionState, review: Review) -> bool:
    """Whether the object waited in the queue of its quota, and its whole new request is charged there.

    A workload with fewer stated limits than in its wait, or with further claims of devices, is no start of the queue.
    """
    kind = kinds.served(review.group, review.version, review.resource)
    if kind is None or review.subresource or review.operation != "UPDATE" or review.object is None:
        return False
    before = stored(kind, review)
    if not waited(before):
        return False
    metadata = review.object.get("metadata")
    uid = metadata.get("uid") if isinstance(metadata, dict) else None
    if not isinstance(uid, str):
        return False
    try:
        ask = kinds.asked(kind, review.object)
        ask, before = with_state(view.state, ask, before, review.namespace, uid)
        if kinds.governing_owner(review.object["metadata"]) is not None:
            return False
    except DemandError:
        return False
    where = view.place(ask.labels, review.namespace)
    if where is None or where.refusal or ask.suspended or _names_claims(ask, before):
        return False
    tree = journals.trees.get(journals.places.get((where.kind, where.quota), ""))
    request = Request(
        where.quota, uid, kind.kind, review.namespace, review.name, ask.demand, types_of(ask.labels),
        unstated=newly_unstated(ask, before),
    )  # fmt: skip
    node = tree.nodes.get(where.quota) if tree is not None else None
    if tree is None or node is None:
        return False
    draft = TreeOverlay(tree)
    return covers(draft, request) and not unspecified(draft, node, request)


def _names_claims(ask: kinds.Ask, before: Stored) -> bool:
    """Whether the workload names further claims than in its wait. Claims are charged apart from its demand."""
    known = before.claims if isinstance(before, kinds.Ask) else ()
    return not set(ask.claims) <= set(known)
