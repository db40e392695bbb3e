"""What a policy under trial saves: as an interval over the rules that fill in what the history cannot know. Pure.

Source: docs/lab.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal, Protocol, TypeVar

import msgspec

from bus.clock import SECOND_US

#: Two decisions no further apart are at the same time: an effect of the one before took until the next tick.
SAME_US = 20 * SECOND_US
#: What became of a decision under trial.
Kind = Literal["same", "added", "removed", "moved"]


class Differs(Protocol):
    """A time that is on record and not under trial, or the other way round: see :class:`reactors.lab.culling.world.Span`."""

    @property
    def is_saved(self) -> bool:
        """On record alone."""

    @property
    def from_us(self) -> int:
        """When it began."""

    @property
    def until_us(self) -> int:
        """When it ended."""


D = TypeVar("D", bound=Differs)


class Amount(msgspec.Struct, frozen=True):
    """What the trial saves; below 0 = it costs. ``likely`` is by the first rule, ``low`` and ``high`` by all of them."""

    low: int = 0
    likely: int = 0
    high: int = 0


def amount(spans: Sequence[Iterable[D]], milli: Callable[[D], int], unsure_us: int = 0) -> Amount:
    """The interval over all rules. A span that has no length has the same end on record and under trial, and is sure."""
    found = []
    for of_rule in spans:
        saved = unsure = 0
        for span in of_rule:
            seconds = span.until_us // SECOND_US - span.from_us // SECOND_US
            saved += (seconds if span.is_saved else -seconds) * milli(span)
            unsure += (unsure_us // SECOND_US if seconds else 0) * milli(span)
        found.append((saved - unsure, saved, saved + unsure))
    return Amount(min(one[0] for one in found), found[0][1], max(one[2] for one in found))


def front(costs: Sequence[tuple[int, int]]) -> set[int]:
    """Of policies as pairs of what is saved and how many are hit by it, those that no other one beats: the places of them."""
    return {
        place
        for place, (saved, hit) in enumerate(costs)
        if not any(s >= saved and h <= hit and (s, h) != (saved, hit) for s, h in costs)
    }
