"""The spent part of a budget, as a linear function of time, exactly.

Between two facts every open segment spends the same amount each second. So all spending of a period is three integers,
kept by adding and taking out, and both questions (how much now, when is it used up) are answered without any clock.

Source: docs/accounting.md.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from projections.budgets.periods import Period


class SpendPiece(msgspec.Struct, frozen=True):
    """``amount`` held over [start_s, end_s); ``end_s`` None while it is open.

    ``deadline_s``: the latest second of its stop; None without a bound.
    """

    start_s: int
    end_s: int | None
    amount: int
    deadline_s: int | None = None


class Spend(msgspec.Struct, frozen=True):
    """spent(t) = closed + rate · t - offset, in unit·seconds; ``rate`` is the amount of open pieces.

    True from the newest start of an open piece until the next fact, or the period's end.
    """

    closed: int = 0
    rate: int = 0
    offset: int = 0

    def at(self, second: int) -> int:
        """The spending until ``second``."""
        return self.closed + self.rate * second - self.offset

    def reached_s(self, amount: int, from_s: int) -> int | None:
        """The first whole second from ``from_s`` on with at least ``amount`` spent; None for never at this rate."""
        if self.at(from_s) >= amount:
            return from_s
        if self.rate <= 0:
            return None
        return -((self.closed - self.offset - amount) // self.rate)

    def __add__(self, other: Spend) -> Spend:
        return Spend(self.closed + other.closed, self.rate + other.rate, self.offset + other.offset)

    def __sub__(self, other: Spend) -> Spend:
        return Spend(self.closed - other.closed, self.rate - other.rate, self.offset - other.offset)


def spend_of(piece: SpendPiece, period: Period) -> Spend:
    """A piece's spending within a period."""
    start_s = max(piece.start_s, period.start_s)
    if period.end_s is not None and start_s >= period.end_s:
        return Spend()
    if piece.end_s is None:
        return Spend(0, piece.amount, piece.amount * start_s)
    end_s = piece.end_s if period.end_s is None else min(piece.end_s, period.end_s)
    return Spend(piece.amount * max(0, end_s - start_s))


def committed(pieces: Iterable[SpendPiece], period: Period, second: int) -> int:
    """The possible spending of open pieces from ``second`` to their deadlines, or to the period's end.

    Pieces without a deadline commit nothing: nothing is promised for them. Source: Slurm, GrpTRESRunMins.
    """
    total = 0
    for piece in pieces:
        if piece.end_s is None and piece.deadline_s is not None:
            until_s = piece.deadline_s
            if period.end_s is not None:
                until_s = min(until_s, period.end_s)
            total += piece.amount * max(0, until_s - max(second, piece.start_s))
    return total
