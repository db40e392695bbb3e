"""What is answered when nobody could decide in time. Pure.

Closed for what would raise a charge, open for everything else (docs/reliability.md): a workload that asks for more is
refused and may be asked for again, and so is a change of who controls it; a change that asks for no more, an edit of
labels that name no quota, a scale down, a delete, the removal of a finalizer pass, so that an outage of Bursar keeps
nobody from tidying up. Everything else passes with a warning.

Whether a decision was stored is not known then: it may have been sent, and be stored later. So nothing is said of it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from bus.errors import DemandError
from bus.kube import kinds
from bus.kube.kinds import Ask
from reactors.webhook.application import Failure
from reactors.webhook.review import Answer, Review

UNAVAILABLE = "bursar-unavailable"

_PASSED = "Bursar could not check this request; it will be charged when it is seen"


def closed_for(charged: Collection[tuple[str, str]]) -> Failure:
    """Denies what asks for more of the charged resources, each (group, plural); allows the rest with a warning.

    The denial has the reason `bursar-unavailable` and the code 503, so that clients see a fault that passes.
    """

    def failure(review: Review, error: Exception | None) -> Answer:
        if (review.group, review.resource) not in charged or not _asks_for_more(review):
            return Answer(True, UNAVAILABLE, warnings=(_PASSED,))
        why = "did not decide in time" if error is None else "could not decide"
        message = f"Bursar {why}: whether the quota allows this is unknown, ask again"
        return Answer(False, UNAVAILABLE, f"{message} ({UNAVAILABLE})", code=503)

    return failure


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
        # What cannot be read may ask for anything.
        return True


def _rises(new: Ask, old: Ask) -> bool:
    """Whether anything is asked for that was not, of all pods or of each one, or of another quota."""
    return (
        new.labels != old.labels
        or _is_above(new.demand, old.demand)
        or _is_above(new.per_replica or {}, old.per_replica or {})
        or new.unstated != old.unstated
    )


def _is_above(new: dict[str, int], old: dict[str, int]) -> bool:
    return any(amount > old.get(key, 0) for key, amount in new.items())


def _written(item: dict[str, Any]) -> tuple[Any, ...]:
    """All that may say how much of which quota is asked for, be it by a label or by an annotation."""
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
