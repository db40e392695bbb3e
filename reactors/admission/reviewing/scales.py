"""Reviews of a scale, which omits the request of one replica: checks that the observed request is current. Pure.

Source: ``docs/admission.md``.
"""

from __future__ import annotations

from bus.kube import kinds
from projections import timelines
from projections.quota_trees.shape import LANDED_US
from reactors.admission.coverage.objects import Object, counts_of
from reactors.admission.deciding.messages import ALLOWED
from reactors.admission.reviewing.governing import is_governed
from reactors.admission.reviewing.stating import is_up
from reactors.admission.state.state import AdmissionState
from reactors.engine.journals import Journals
from reactors.webhook.review import Answer, Review

#: The refusal of a scale of something that may just have been changed, in whatever tree that was decided.
UNSEEN = "object-unseen"


def is_doubted(journals: Journals, view: AdmissionState, found: Object, version: str) -> bool:
    """Whether ``version`` of the object may differ from what was seen of it by more than its replicas."""
    if found.version == version:
        return False
    if view.coverage.reshaped.has(found):
        return True
    for name in journals.holders.get(found.uid, ()):
        tree = journals.tree(name)
        for quota in tree.holders[found.uid]:
            grant = tree.nodes[quota].grants[found.uid]
            is_passed = timelines.precedes(grant.reshaped, 0, found.version, 0)
            is_listed = found.listed_us >= grant.asked_us + LANDED_US
            if grant.reshaped and not (is_passed or is_listed):
                return True
    return False


def scaled_from(found: Object, review: Review) -> dict[str, int] | None:
    """What counts below an owner before a scale; None where the review does not say how many replicas there are."""
    if review.old_object is None:
        return None
    return counts_of(
        found.kind, kinds.scaled(found.ask, kinds.scale_of(review.old_object).replicas)
    )


async def answer_unseen(
    journals: Journals, view: AdmissionState, review: Review, scale: kinds.Scale
) -> Answer:
    """The answer to a scale of something that was not seen as it is now: only fewer replicas pass, and what no quota governs.

    Another process may have charged it a moment ago: the journals are read to their end first. Raises BusUnavailableError where
    the bus does not answer, as a decision does that cannot be stored.
    """
    if not is_up(scale, review):
        return ALLOWED
    if not is_governed(view, review):
        await journals.caught_up()
        if not is_governed(view, review):
            return ALLOWED
    message = f"{review.resource} {review.name!r} was not seen as it is now: try again in a moment"
    return Answer(False, UNSEEN, f"{message} ({UNSEEN})", code=409)
