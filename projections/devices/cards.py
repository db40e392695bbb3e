"""Holders of each part of each card, second by second: pods, or a claim with free devices.

A pure function of claims with their pods. Of one card held parts come first, then reserved ones in the order of
allocations, then possible holdings of pods with an unobserved end; together never more than the card.

Source: docs/devices.md.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import groupby, pairwise

import msgspec

from bus.clock import SECOND_US
from projections.devices.claims import ClaimHistory
from projections.devices.holding import GRACE_S, OPEN, Span, Use, held
from projections.devices.sizes import WHOLE

HELD, RESERVED, UNKNOWN = "held", "reserved", "unknown"

#: (from, to, milli-cards)
Taken = tuple[int, int, int]


class Occupant(msgspec.Struct, frozen=True):
    """A claim: its results with their holding pods, and all its pods with a bind or with unknown time."""

    claim: ClaimHistory
    uses: list[Use]
    pods: list[Span]

    def extents(self) -> dict[str, tuple[int, int]]:
        """Card → its seconds in this claim, or in a pod by this claim."""
        found: dict[str, tuple[int, int]] = {}
        for use in self.uses:
            bounds = [_allocated(use), *((a, b) for _, a, b in use.pods)]
            for card, _ in use.size.cards:
                known = [*bounds, found[card]] if card in found else bounds
                found[card] = (min(a for a, _ in known), max(b for _, b in known))
        return found


class CardPiece(msgspec.Struct, frozen=True, gc=False):
    """A part of a card over [``from_s``, ``to_s``). ``part``: the number of the result; ``pod`` "": held by no pod.

    ``since_s``: the start of the reserved interval around this piece.
    """

    kind: str
    use: Use
    part: int
    card: str
    pod: str
    since_s: int
    from_s: int
    to_s: int
    gpu_milli: int
    gpu_memory_mib: int = 0


def pieces(occupants: Sequence[Occupant], of: Collection[str]) -> list[CardPiece]:
    """The parts of the claims ``of``. ``occupants``: these, and all others on their cards at the same time."""
    ordered = sorted(occupants, key=lambda one: one.claim.uid)
    numbers = {id(use): number for one in ordered for number, use in enumerate(one.uses)}
    taken: dict[str, list[Taken]] = defaultdict(list)
    found: list[CardPiece] = []
    for one in held([use for occupant in ordered for use in occupant.uses]):
        memory = one.gpu_memory_mib
        for card, milli in _by_card(one.use, one.gpu_milli):
            taken[card].append((one.from_s, one.to_s, milli))
            found.append(
                CardPiece(
                    HELD, one.use, numbers[id(one.use)], card, one.uid, one.from_s, one.from_s,
                    one.to_s, milli, memory,
                )
            )  # fmt: skip
            memory = 0
    uses = [
        (use, occupant.pods)
        for occupant in ordered
        for use in occupant.uses
        if use.size.cards and not use.size.is_rest and use.size.gpu_milli
    ]
    uses.sort(key=lambda one: (one[0].given.begin_us, one[0].claim.uid, numbers[id(one[0])]))
    for kind in (RESERVED, UNKNOWN):
        for use, pods in uses:
            for from_s, to_s in _reserved(use, pods) if kind == RESERVED else _unknown(use, pods):
                for card, milli in use.size.cards:
                    for a, b, amount in left(milli, taken[card], from_s, to_s):
                        taken[card].append((a, b, amount))
                        number = numbers[id(use)]
                        found.append(CardPiece(kind, use, number, card, "", from_s, a, b, amount))
    return _joined(one for one in found if one.use.claim.uid in of)


def _by_card(use: Use, milli: int) -> Iterator[tuple[str, int]]:
    """The part of ``milli`` on each card."""
    cards = use.size.cards
    whole = sum(amount for _, amount in cards)
    for card, amount in cards:
        yield card, milli if len(cards) == 1 else milli * amount // (whole or 1)


def _allocated(use: Use) -> tuple[int, int]:
    """The seconds of an allocation; of a vanished claim up to its last evidence."""
    one = use.given
    ends = [us // SECOND_US for us in (one.end_us, one.evidence_us) if us is not None]
    return one.begin_us // SECOND_US, min(ends, default=OPEN)


def _reserved(use: Use, pods: Iterable[Span]) -> list[tuple[int, int]]:
    """When no pod holds it, nor may hold it: longer than clocks differ. A pod of less than a second holds in none.

    A pod without an observed bind may hold it in its unknown time alone.
    """
    busy = [(a, b) for pod in pods if (a := _first(pod)) < (b := _last(pod))]
    return [(a, b) for a, b in _without(*_allocated(use), busy) if b - a > GRACE_S]


def _unknown(use: Use, pods: Iterable[Span]) -> list[tuple[int, int]]:
    """The possible holding time of a pod without an observed end, while no other holds it."""
    from_s, to_s = _allocated(use)
    maybe = [
        (max(from_s, pod.end_s), min(to_s, _last(pod)))
        for pod in pods
        if pod.unknown_s and pod.end_s is not None
    ]
    holds = [(a, b) for _, a, b in use.pods]
    return [
        one
        for a, b in union(interval for interval in maybe if interval[0] < interval[1])
        for one in _without(a, b, holds)
    ]


def _first(pod: Span) -> int:
    return _last(pod) - pod.unknown_s if pod.start_s is None else pod.start_s


def _last(pod: Span) -> int:
    return OPEN if pod.end_s is None else pod.end_s + pod.unknown_s


def union(intervals: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Intervals without overlaps, in order."""
    found: list[tuple[int, int]] = []
    for from_s, to_s in sorted(intervals):
        if found and from_s <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], to_s))
        else:
            found.append((from_s, to_s))
    return found


def _without(from_s: int, to_s: int, taken: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """[``from_s``, ``to_s``) without the taken intervals."""
    found = []
    for a, b in union(taken):
        found.append((from_s, min(a, to_s)))
        from_s = max(from_s, b)
    found.append((from_s, to_s))
    return [(a, b) for a, b in found if a < b]


def left(amount: int, taken: Iterable[Taken], from_s: int, to_s: int) -> list[Taken]:
    """(from, to, amount) of a card's rest beside others."""
    beside = [(a, b, n) for a, b, n in taken if a < to_s and from_s < b]
    seconds = {from_s, to_s, *(s for a, b, _ in beside for s in (a, b) if from_s < s < to_s)}
    found: list[Taken] = []
    for a, b in pairwise(sorted(seconds)):
        milli = min(amount, WHOLE - sum(n for x, y, n in beside if x <= a < y))
        if milli > 0 and found and found[-1][1:] == (a, milli):
            found[-1] = (found[-1][0], b, milli)
        elif milli > 0:
            found.append((a, b, milli))
    return found


def _joined(found: Iterable[CardPiece]) -> list[CardPiece]:
    """Consecutive pieces with equal amounts are one."""

    def same(one: CardPiece) -> tuple[str, int, str, str, str]:
        return one.use.claim.uid, one.part, one.card, one.kind, one.pod

    joined: list[CardPiece] = []
    for _, together in groupby(sorted(found, key=lambda one: (same(one), one.from_s)), same):
        row = list(together)
        kept = [row[0]]
        for one in row[1:]:
            last = kept[-1]
            if last.to_s == one.from_s and _amount(last) == _amount(one):
                kept[-1] = msgspec.structs.replace(last, to_s=one.to_s)
            else:
                kept.append(one)
        joined += kept
    return joined


def _amount(one: CardPiece) -> tuple[int, int, int]:
    since_s = 0 if one.kind == HELD else one.since_s
    return one.gpu_milli, one.gpu_memory_mib, since_s
