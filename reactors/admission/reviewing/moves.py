"""May an owner be charged elsewhere in a moment than it was seen to be? Pure.

An admitted change of its quota or model that was not observed yet may land at any moment, together with the pods that lived below
it at the request. A pod that is requested below it meanwhile would be charged to the old quota, and would run in the new one.

Source: ``docs/admission.md`` ("What hangs below an owner").
"""

from __future__ import annotations

from projections import timelines
from projections.quota_trees import TreeOverlay
from projections.quota_trees.shape import LANDED_US, Grant
from reactors.admission.coverage.objects import Object
from reactors.admission.reviewing.children import Holder
from reactors.admission.state.state import AdmissionState
from reactors.engine.journals import Journals


def is_moving(
    journals: Journals, view: AdmissionState, holder: Holder, draft: TreeOverlay | None = None
) -> bool:
    """Whether a change that was admitted may take the holder elsewhere. ``draft``: its tree with what is not stored yet."""
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
    """Whether the last ask of a grant may still land, after what was seen of its object."""
    if found is None:
        return True
    has_landed = not grant.version or timelines.precedes(grant.version, 0, found.version, 0)
    return not (has_landed or found.listed_us >= grant.asked_us + LANDED_US)
