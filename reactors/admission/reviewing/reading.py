"""Facts of a review besides its demand: the version before it, and the kind of the change. Pure."""

from __future__ import annotations

from typing import Any

import msgspec

from bus.errors import DemandError, MalformedJsonError, ObservationError
from bus.events.pods import Owner
from bus.events.quotas import QuotaObserved
from bus.kube import kinds
from bus.kube.watch.labels import LabelPolicy
from bus.kube.watch.records import Record
from bus.sources import quotas
from projections.cluster import POD, ClusterState
from reactors.admission.coverage.owners import controller_of
from reactors.admission.state.state import spec_of
from reactors.webhook.review import Review

#: The request of the stored object before a review: None if nothing is stored, an error if it is
#: unreadable. It is read once for each review, as this is the most expensive step.
Stored = kinds.Ask | DemandError | None


def stored(kind: kinds.Kind, review: Review) -> Stored:
    """The earlier request of the object."""
    if review.old_object is None:
        return None
    try:
        return kinds.asked(kind, review.old_object)
    except DemandError as error:
        return error


def version_of(review: Review) -> str:
    """The version before an update."""
    metadata = (review.object or {}).get("metadata") or {}
    # "?" is later than every version: then only a complete list can settle the ask.
    return str(metadata.get("resourceVersion", "?")) if review.operation == "UPDATE" else ""


def with_state(
    state: ClusterState, ask: kinds.Ask, before: Stored, namespace: str, uid: str
) -> tuple[kinds.Ask, Stored]:
    """Both requests with the amounts of its runtime, and with the devices that its claims may get."""
    if isinstance(before, kinds.Ask):
        before = state.asked(before, namespace, uid)
    return state.asked(ask, namespace, uid), before


def reshapes(kind: kinds.Kind, ask: kinds.Ask, before: Stored) -> bool:
    """Whether it changes any input of a scale except the replicas."""
    if not kind.scales or before is None:
        return False
    return isinstance(before, DemandError) or _shape(before) != _shape(ask)


def comes(ask: kinds.Ask, owner: Owner | None, review: Review, before: Stored) -> bool:
    """Whether it is charged elsewhere from now on: by another label, or no more by its owner. Its pods come along."""
    if before is None or review.old_object is None:
        return False
    if isinstance(before, DemandError):
        return True
    former = kinds.governing_owner(review.old_object.get("metadata") or {})
    return (before.labels, former) != (ask.labels, owner)


def _shape(ask: kinds.Ask) -> tuple[object, ...]:
    rest = kinds.scaled(ask, 0).demand if ask.per_replica is not None else ask.demand
    return rest, ask.per_replica, ask.labels, ask.suspended, ask.unstated


def name_of(review: Review, metadata: dict[str, Any]) -> str:
    """Its name, or the beginning of it while it has none."""
    return review.name or str(metadata.get("name") or metadata.get("generateName") or "")


def is_going(
    kind: kinds.Kind, metadata: dict[str, Any], ask: kinds.Ask, review: Review, before: Stored
) -> bool:
    """Whether it is in deletion and requests no more than before: its controller makes nothing for it any more.

    Its charge falls when it is gone; after a refusal, its finalizers could never be removed. An object with a new
    controller, or without one now, leaves the old owner's charge, and may run on for any time.
    """
    is_known = kind.is_native or kind.kind == POD
    if not metadata.get("deletionTimestamp") or review.old_object is None or not is_known:
        return False
    if controller_of(review.old_object.get("metadata") or {}) != controller_of(metadata):
        return False
    if before is None or isinstance(before, DemandError):
        return False
    is_less = all(n <= before.demand.get(key, 0) for key, n in ask.demand.items())
    return is_less and before.labels == ask.labels


def is_less(ask: kinds.Ask, review: Review, before: Stored) -> bool:
    """Whether an update asks for no more than before, of the same quota and below the same controller: a stop, say."""
    if review.old_object is None or before is None or isinstance(before, DemandError):
        return False
    owners = [
        controller_of(one.get("metadata") or {}) for one in (review.old_object, review.object or {})
    ]
    is_less = all(n <= before.demand.get(key, 0) for key, n in ask.demand.items())
    is_alike = (before.labels, before.unstated) == (ask.labels, ask.unstated)
    return is_less and is_alike and owners[0] == owners[1]


def is_unchanged(ask: kinds.Ask, review: Review, before: Stored) -> bool:
    """Whether an update changes nothing behind a charge: demand, labels of quotas, and the controller of the object.

    The charge of the stored object is enough for this one: an update is reviewed for one stored version, and lands
    on that one or is reviewed again. So an annotation, or a foreign label, makes no entry.
    """
    old = review.old_object
    if review.operation != "UPDATE" or old is None or before != ask:
        return False
    owners = [controller_of(one.get("metadata") or {}) for one in (old, review.object or {})]
    return owners[0] == owners[1]


def rested(before: Stored) -> bool:
    """Whether the object was suspended before this change. Raises DemandError."""
    if isinstance(before, DemandError):
        raise before
    return before is not None and bool(before.wanted)


def waited(before: Stored) -> bool:
    """Whether the object waited in a queue before this change."""
    return isinstance(before, kinds.Ask) and before.held


def limits_of(quota: QuotaObserved | None) -> object:
    """The limits of an ElasticQuota, and its place."""
    if quota is None:
        return None
    flags = (quota.tree_root, quota.force_update, quota.strict_max_keys)
    return (quota.parent, quota.tree, *flags, spec_of(quota))


def observed(object: dict[str, Any] | None, kind: str) -> QuotaObserved | None:
    """A quota's object in the form of its source's fact; None if there is none.

    Raises DemandError for an object without such a form.
    """
    if object is None:
        return None
    # A new object has no version yet.
    metadata = {"resourceVersion": "0", **object.get("metadata", {})}
    raw = msgspec.json.encode({**object, "metadata": metadata})
    record = Record("ADDED", raw, 0, "webhook", "webhook")
    try:
        event = quotas.translate(record, LabelPolicy(), kind=kind)
    except (MalformedJsonError, ObservationError) as error:
        raise DemandError(path="", reason=str(error)) from error
    return QuotaObserved.read(event)
