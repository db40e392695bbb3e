"""The answers to reviews that were not decided in time, or cannot be read exactly. Pure.

Closed for reviews that would raise a charge, open for all others (docs/reliability.md). A workload with a larger request is
refused and may be tried again, and so is a change of its controller. A change without a larger request, an edit of
labels other than the quota's, a scale down, a delete, and the removal of a finalizer pass. So users can
tidy up during an outage of Bursar. Everything else passes with a warning.

Whether a decision was stored is not known then: it may have been sent, and be stored later. So the answer does not mention it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from bus.errors import DemandError
from bus.kube import kinds
from bus.kube.kinds import Ask
from reactors.webhook.outline import Outline
from reactors.webhook.review import Answer, Review

#: The answer after this exception of the handler, or after its deadline (None). Pure.
Failure = Callable[[Review, Exception | None], Answer]
#: The answer to a review with only its outline, with the reason; None: not in time. Pure.
Unread = Callable[[Outline, str | None], Answer]

UNAVAILABLE = "bursar-unavailable"
#: The reason to deny an object that cannot be read exactly.
UNREADABLE = "unreadable-object"

_PASSED = "Bursar could not check this request; it will be charged when it is seen"


def closed_for(charged: Collection[tuple[str, str]]) -> Failure:
    """Denies larger requests for charged resources, each (group, plural); allows the rest with a warning.

    The denial has the reason `bursar-unavailable` and the code 503, so clients see a temporary fault.
    """

    def failure(review: Review, error: Exception | None) -> Answer:
        if (review.group, review.resource) not in charged or not _asks_for_more(review):
            return Answer(True, UNAVAILABLE, warnings=(_PASSED,))
        why = "did not decide in time" if error is None else "could not decide"
        message = f"Bursar {why}: whether the quota allows this is unknown, ask again"
        return Answer(False, UNAVAILABLE, f"{message} ({UNAVAILABLE})", code=503)

    return failure


def unread(outline: Outline, reason: str | None) -> Answer:
    """The answer to a review of a governed object that cannot be read exactly; ``reason`` None: not in time.

    A deletion passes. So does an update that changes no requests, or only annotations of an object
    in deletion. So an object above the limit can be deleted, and its finalizers can be removed.
    """
    if outline.operation in ("DELETE", "CONNECT"):
        return Answer(True)
    if outline.asks_alike or outline.only_ends:
        return Answer(True, "unchanged")
    if reason is None:
        message = "Bursar did not read this review in time: whether the quota allows it is unknown, ask again"
        return Answer(False, UNAVAILABLE, f"{message} ({UNAVAILABLE})", code=503)
    message = (
        f"Bursar cannot read the object exactly: {reason}. Change or shorten it; it can be deleted"
    )
    return Answer(False, UNREADABLE, f"{message} ({UNREADABLE})", code=422)


def _asks_for_more(review: Review) -> bool:
    new, old = review.object, review.old_object
    if review.operation not in ("CREATE", "UPDATE") or new is None:
        return False
    if review.operation == "CREATE" or old is None:
        return True
    if review.subresource == "scale":
        return _replicas(new) > _replicas(old)
    if _controllers(new) != _controllers(old):
        # Another owner may be charged for it, or none.
        return True
    if _written(new) == _written(old):
        return False
    kind = kinds.served(review.group, review.version, review.resource)
    if kind is None:
        return True
    try:
        return _rises(kinds.asked(kind, new), kinds.asked(kind, old))
    except DemandError:
        # An unreadable object may request anything.
        return True


def _rises(new: Ask, old: Ask) -> bool:
    """Whether anything new is requested, for all pods or for each one, or from another quota."""
    return (
        new.labels != old.labels
        or _is_above(new.demand, old.demand)
        or _is_above(new.per_replica or {}, old.per_replica or {})
        or new.unstated != old.unstated
    )


def _is_above(new: dict[str, int], old: dict[str, int]) -> bool:
    return any(amount > old.get(key, 0) for key, amount in new.items())


def _written(item: dict[str, Any]) -> tuple[Any, ...]:
    """All fields that may change the amount or the quota of a request, labels and annotations included."""
    metadata = item.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    # Stored objects leave empty maps out or not, as their writer did.
    return item.get("spec"), metadata.get("labels") or {}, metadata.get("annotations") or {}


def _controllers(item: dict[str, Any]) -> list[tuple[object, ...]]:
    metadata = item.get("metadata")
    found = metadata.get("ownerReferences") if isinstance(metadata, dict) else None
    return [
        (one.get("apiVersion"), one.get("kind"), one.get("uid"))
        for one in (found if isinstance(found, list) else ())
        if isinstance(one, dict) and one.get("controller")
    ]


def _replicas(scale: dict[str, Any]) -> int:
    spec = scale.get("spec")
    replicas = spec.get("replicas", 0) if isinstance(spec, dict) else 0
    return replicas if isinstance(replicas, int) else 0
