"""Facts about budgets: credits and refunds, written as entries beside a quota's budget.

Source: docs/architecture.md: corrections are entries, never edits.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec

from bus.events.vocabulary import Fact

#: Largest amount of one entry, either way: sums of entries stay inside 64 bits.
MOST = 2**60
#: Latest moment an entry may belong to: the end of the year 9999, microseconds.
LATEST_US = 253_402_300_800 * 1_000_000


class BudgetCredited(Fact, frozen=True, kw_only=True):
    """A quota was given more budget, or less, for one period. Key: the quota's name.

    ``author``: the person or program. ``ref`` identifies the entry, so a repeated entry counts once.
    """

    wire_type: ClassVar[str] = "budget.credited"

    ref: str
    quota: str
    #: The budget's key without ``cash/``, e.g. ``limits.cpu.A4``.
    key: str
    #: In the unit·seconds of the ledger; positive = more budget, negative = less.
    amount: Annotated[int, msgspec.Meta(ge=-MOST, le=MOST)]
    reason: str
    author: str
    #: A moment in the entry's period, microseconds UTC.
    since_us: Annotated[int, msgspec.Meta(ge=0, lt=LATEST_US)]


class BudgetJudged(Fact, frozen=True, kw_only=True):
    """A key of a quota entered another phase of exhaustion. Key: the quota's name.

    The acting process decides it on a tick. Rejections and evictions for a spent budget follow from it.
    """

    wire_type: ClassVar[str] = "budget.judged"

    quota: str
    key: str
    #: ``Ok``, ``Warned``, ``Exhausted`` or ``GraceOver``.
    phase: str
    #: The second of this evaluation, and the start of its warning and its exhaustion (None: not reached).
    at_s: int
    warned_s: int | None = None
    exhausted_s: int | None = None
    #: Its period: [start, end), without end for None.
    period_start_s: int
    period_end_s: int | None = None
    is_granted: bool = True
    spent: int
    limit: int
    #: ``Warn``, ``DenyNew`` or ``GraceThenEvict``.
    rule: str
    #: The last event folded into the ledger.
    based_on: int
