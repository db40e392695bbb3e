"""The reviews that a process answered without a decision: how many, when the newest, and which error.

Source: ``docs/webhook.md``, "Does it enforce?".
"""

from __future__ import annotations

import msgspec

from bus.clock import Clock
from reactors.webhook.failure import Failure
from reactors.webhook.review import Answer, Review

#: Longest error that is kept.
LONGEST = 300


class Undecided(msgspec.Struct):
    """Since the start of the process; a review that is late counts as one that failed."""

    reviews: int = 0
    newest_us: int = 0
    #: Of the newest.
    error: str = ""


def noting(failure: Failure, undecided: Undecided, clock: Clock) -> Failure:
    """``failure``, each of whose answers is counted in ``undecided``."""

    def noted(review: Review, error: Exception | None) -> Answer:
        undecided.reviews += 1
        undecided.newest_us = clock.now_us()
        why = "no decision in time" if error is None else f"{type(error).__name__} {error}".strip()
        of = f"{review.operation} of {review.resource} in namespace {review.namespace!r}"
        undecided.error = f"{of}: {why}"[:LONGEST]
        return failure(review, error)

    return noted
