"""Admitted changes that are not observed yet, and may land at any moment. Pure.

A change of an owner's quota or model lands together with the pods below it at the request. A pod requested
below it meanwhile would be charged to the old quota, and would run in the new one. A Scale object contains no per-replica
request. After an unobserved change of that request, a scale up is rejected until the change is observed.

Source: ``docs/admission.md`` ("Objects below an owner").
"""

from __future__ import annotations

from projections import timelines
from projections.quota_trees import TreeOverlay
from projections.quota_trees.shape import LANDED_US, Grant
from reactors.admission.coverage.objects import Object
from reactors.admission.reviewing.children import Holder
from reactors.admission.state.state import AdmissionState
from reactors.engine.journals import Journals

#: The refusal of an object with a possible recent change, decided in any tree.
UNSEEN = "object-unseen"


def is_doubted(journals: Journals, view: AdmissionState, found: Object, version: str) -> bool:
    """Whether ``version`` of the object may differ from its observation by more than its replicas."""
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


def is_moving(
    journals: Journals, view: AdmissionState, holder: Holder, draft: TreeOverlay | None = None
) -> bool:
    """Whether an admitted change may move the holder to another quota. ``draft``: its tree with unstored entries."""
    if holder.where is None:
        return False
    found = view.objects.get(holder.uid)
    grants = [grant for _, grant in journals.grants(holder.uid)]
    grants += draft.of(holder.uid) if draft is not None else ()
    here = (holder.where.quota, holder.where.full_name)
    return any(
        _may_land(grant, found)
        for grant in grants
        if grant.number and not (grant.quota in here and grant.types == holder.types)
    )


def _may_land(grant: Grant, found: Object | None) -> bool:
    """Whether the last request of a grant may still land, after the last observation of its object."""
    if found is None:
        return True
    has_landed = not grant.version or timelines.precedes(grant.version, 0, found.version, 0)
    return not (has_landed or found.listed_us >= grant.asked_us + LANDED_US)
