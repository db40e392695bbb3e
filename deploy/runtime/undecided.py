"""A process's answers to reviews without a decision: their number, the time of the newest, and its error.

Source: ``docs/webhook.md``, "Does it enforce?".
"""

from __future__ import annotations

import msgspec

from bus.clock import Clock
from reactors.webhook.failure import Failure, Unread
from reactors.webhook.outline import Outline
from reactors.webhook.review import Answer, Review

#: Longest stored error.
LONGEST = 300


class Undecided(msgspec.Struct):
    """Counts since the start of the process; a late review counts as a failed one."""

    reviews: int = 0
    newest_us: int = 0
    #: Of the newest.
    error: str = ""


def noting(failure: Failure, undecided: Undecided, clock: Clock) -> Failure:
    """``failure``, with each of its answers counted in ``undecided``."""

    def noted(review: Review, error: Exception | None) -> Answer:
        _note(undecided, review, error, clock)
        return failure(review, error)

    return noted


def noting_outlines(unread: Unread, undecided: Undecided, clock: Clock) -> Unread:
    """``unread``, with each late answer and each failure counted in ``undecided``."""

    def noted(outline: Outline, reason: str | None) -> Answer:
        if reason is None:
            _note(undecided, outline, None, clock)
        try:
            return unread(outline, reason)
        except Exception as error:
            _note(undecided, outline, error, clock)
            raise

    return noted


def _note(
    undecided: Undecided, of: Review | Outline, error: Exception | None, clock: Clock
) -> None:
    undecided.reviews += 1
    undecided.newest_us = clock.now_us()
    why = "no decision in time" if error is None else f"{type(error).__name__} {error}".strip()
    what = f"{of.operation} of {of.resource} in namespace {of.namespace!r}"
    undecided.error = f"{what}: {why}"[:LONGEST]
