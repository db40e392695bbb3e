"""What is answered when nobody could decide in time. Pure.

Closed for what would raise a charge, open for everything else (reliability.md P18): a workload that asks for more is
refused and may be asked for again; a change that asks for no more, a scale down, a delete, the removal of a finalizer
pass, so that an outage of Bursar keeps nobody from tidying up. Everything else passes with a warning.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

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
        message = f"Bursar {why} whether the quota allows this; nothing was charged, try again"
        return Answer(False, UNAVAILABLE, message, code=503)

    return failure


def _asks_for_more(review: Review) -> bool:
    new, old = review.object, review.old_object
    if review.operation not in ("CREATE", "UPDATE") or new is None:
        return False
    if review.operation == "CREATE" or old is None:
        return True
    if review.subresource == "scale":
        return _replicas(new) > _replicas(old)
    # Labels name the quota; other metadata asks for nothing.
    return new.get("spec") != old.get("spec") or _labels(new) != _labels(old)


def _replicas(scale: dict[str, Any]) -> int:
    spec = scale.get("spec")
    replicas = spec.get("replicas", 0) if isinstance(spec, dict) else 0
    return replicas if isinstance(replicas, int) else 0


def _labels(item: dict[str, Any]) -> Any:
    metadata = item.get("metadata")
    # Stored objects leave empty maps out or not, as their writer did.
    return (metadata.get("labels") if isinstance(metadata, dict) else None) or {}
