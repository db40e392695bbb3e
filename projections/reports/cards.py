"""The cards held by pods by claim, and the requested device class of each.

Source: docs/devices.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from typing import Any

import msgspec
import sqlalchemy as sa

from projections.devices import claims as claim_rows
from projections.devices.cards import HELD
from projections.devices.entries import CardEntry
from projections.devices.shape import card_segments

#: Rows fetched at once.
_FETCHED = 2_000

#: Claims with remembered classes: the rows of one pod, and of pods with shared claims, are near each other.
_KEPT = 10_000


class CardPart(msgspec.Struct, frozen=True, gc=False):
    """A pod's part of one card by a claim over [``start_s``, ``end_s``); None while it is open."""

    card: str
    device_class: str | None
    model: str | None
    start_s: int
    end_s: int | None
    gpu_milli: int


class CardShare(msgspec.Struct, frozen=True, gc=False):
    """Cards of a segment: of one card, or of an unknown card (None)."""

    card: str | None
    device_class: str | None
    model: str | None
    gpu_milli: int


class ByPod:
    """Rows in order of their first column, read pod by pod in that order."""

    def __init__(self, rows: sa.CursorResult[Any]) -> None:
        self._pods = groupby(rows, key=lambda row: row[0])
        self._following = next(self._pods, None)

    def of(self, uid: str) -> list[tuple[Any, ...]]:
        """The rows of a pod; none for a pod before the next of these."""
        if self._following is None or self._following[0] != uid:
            return []
        found = [tuple(row) for row in self._following[1]]
        self._following = next(self._pods, None)
        return found


class HeldCards:
    """The cards of pods. ``pods``: (uid,) of the selected ones, in the order of uids."""

    def __init__(
        self, connection: sa.Connection, pods: sa.Select[Any], *, has_classes: bool
    ) -> None:
        self._classes: dict[str, tuple[str | None, ...]] = {}
        cards = card_segments.c
        query = sa.select(
            cards.pod_uid, cards.uid, cards.part, cards.card, cards.model, cards.start_s, cards.end_s,
            cards.gpu_milli,
        ).where(cards.kind == HELD, cards.pod_uid.in_(pods))  # fmt: skip
        if has_classes:
            claims = claim_rows.claims
            query = query.add_columns(*claims.c).outerjoin(claims, claims.c.uid == cards.uid)
        ordered = query.order_by(cards.pod_uid, cards.start_s, cards.card, cards.uid, cards.part)
        self._rows = ByPod(connection.execute(ordered.execution_options(yield_per=_FETCHED)))

    def of(self, uid: str) -> list[CardPart]:
        """A pod's cards. Pods are requested in the order of their uids."""
        return [
            CardPart(card, self._class(claim, part, row), model, start_s, end_s, milli)
            for _, claim, part, card, model, start_s, end_s, milli, *row in self._rows.of(uid)
        ]

    def _class(self, uid: str, part: int, row: list[Any]) -> str | None:
        """The class of a result of a claim; ``row`` has the claim's columns, or nothing where nobody asks for classes."""
        if not row or row[0] is None:
            return None
        if uid not in self._classes:
            if len(self._classes) == _KEPT:
                self._classes.clear()
            self._classes[uid] = _classes_of(claim_rows.projection.codec.row(tuple(row)))
        classes = self._classes[uid]
        return classes[part] if part < len(classes) else None


def _classes_of(claim: claim_rows.ClaimHistory) -> tuple[str | None, ...]:
    """The class of each result of a claim, in the order of its allocations."""
    # The chosen entry of a prioritized request is not stored: it has a class if all entries have the same.
    asks = {one.name: {ask.device_class for ask in one.asks} for one in claim.requests}
    return tuple(
        next(iter(found)) if len(found) == 1 else None
        for given in claim_rows.allocations(claim)
        for result in given.allocation.results
        for found in [asks.get(result.request.partition("/")[0], set())]
    )


def shares(
    start_s: int, end_s: int, entries: Sequence[CardEntry], parts: Sequence[CardPart]
) -> Iterator[tuple[int, int, list[CardShare]]]:
    """(from, to, shares) of a segment with ``entries``. The part without a known card has None.

    At each second the shares are as many milli-cards as the entries, whatever ``parts`` say. The first one is of a card,
    where any is known, and of those of the first entry's model.
    """
    ends = {s for one in parts for s in (one.start_s, one.end_s) if s is not None}
    cuts = sorted({start_s, end_s, *(s for s in ends if start_s < s < end_s)})
    order = {one.model: number for number, one in enumerate(entries)}
    for from_s, to_s in pairwise(cuts):
        left, given = sum(one.gpu_milli for one in entries), Counter[str | None]()
        found: list[CardShare] = []
        for one in parts:
            milli = min(one.gpu_milli, left)
            if milli and one.start_s <= from_s and (one.end_s is None or from_s < one.end_s):
                found.append(CardShare(one.card, one.device_class, one.model, milli))
                given[one.model] += milli
                left -= milli
        for entry in entries:
            if rest := min(max(entry.gpu_milli - given[entry.model], 0), left):
                found.append(CardShare(None, None, entry.model, rest))
                left -= rest
        # The part with a card goes before the part without.
        found.sort(key=lambda one: (one.card is None, order.get(one.model, len(order))))
        yield from_s, to_s, found
