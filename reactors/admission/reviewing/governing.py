"""The check whether a quota governs the object of a review. Pure, and total: it raises for no review.

It is made before refusals for other reasons than a quota's room: the object is unreadable, its owner was not
observed or was deleted, the decision failed. Such a refusal is meant only for objects under a quota.

Source: ``docs/admission.md`` ("Ungoverned work").
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from reactors.admission.coverage.chains import DEPTH
from reactors.admission.deciding.mapping import ELASTIC_LABEL, LABEL
from reactors.admission.reviewing.questions import QUOTAS
from reactors.admission.state.state import AdmissionState
from reactors.webhook.review import Review

_LABELS = frozenset({LABEL, ELASTIC_LABEL})


def is_governed(view: AdmissionState, review: Review, *, is_late: bool = False) -> bool:
    """Whether a quota may be charged for the reviewed object: by its namespace, by a label anywhere in the object, by its
    charge, or by an owner above it. Quotas themselves are governed.

    An unobserved owner, or an unobserved object of a scale, may be charged: another process may have admitted it a
    moment ago. So it is governed if anything in its namespace is charged. In a late review it always is, as this process may
    be behind.
    """
    if (review.group, review.resource) in QUOTAS or view.place({}, review.namespace) is not None:
        return True
    items = (review.object, review.old_object)
    if any(map(names_quota, items)):
        return True
    uids = {uid for item in items for uid in _uids(item)}
    if any(stands_in_quota(view, uid, review.namespace) for uid in uids):
        return True
    # The labels of the object itself were read, but for those of a scale.
    own = set() if review.subresource == "scale" else set(map(_own, items))
    return may_be_charged(view, uids - own, review.namespace, is_late=is_late)


def stands_in_quota(view: AdmissionState, uid: str, namespace: str) -> bool:
    """Whether a quota is charged for an object or an owner above it, or would be by their last observed labels.

    An unobserved object counts by its charge: after its review, an object with a quota has one.
    """
    for _ in range(DEPTH):
        if not uid:
            return False
        if view.coverage.grant(uid) is not None:
            return True
        found = view.objects.get(uid) or view.gone(uid)
        if found is not None and view.place(found.labels, namespace) is not None:
            return True
        uid = view.coverage.parent_of(uid)
    return True


def may_be_charged(
    view: AdmissionState, uids: Collection[str], namespace: str, *, is_late: bool
) -> bool:
    """Whether one of these objects was not observed, in a namespace with any charge, or in a late review."""
    if all(uid in view.objects or view.gone(uid) is not None for uid in uids):
        return False
    charges = view.coverage.charges
    return is_late or charges is None or charges.charges_in(namespace)


def names_quota(value: object) -> bool:
    """Whether a quota's label stands anywhere in an object: of itself, or of a template."""
    if isinstance(value, dict):
        return not _LABELS.isdisjoint(value) or any(map(names_quota, value.values()))
    return isinstance(value, list) and any(map(names_quota, value))


def _own(item: dict[str, Any] | None) -> str:
    metadata = item.get("metadata") if item is not None else None
    uid = metadata.get("uid") if isinstance(metadata, dict) else None
    return uid if isinstance(uid, str) else ""


def _uids(item: dict[str, Any] | None) -> list[str]:
    """The uids of an object and of its owners, from any value."""
    metadata = item.get("metadata") if item is not None else None
    if not isinstance(metadata, dict):
        return []
    references = metadata.get("ownerReferences")
    named = [metadata, *(references if isinstance(references, list) else ())]
    found = [one.get("uid") for one in named if isinstance(one, dict)]
    return [uid for uid in found if isinstance(uid, str)]
