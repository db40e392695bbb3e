"""Units of the amounts in a report.

``exact`` are the integers of the ledger; all other units are for reading. Hours are rounded to six digits, enough for a
change of one milli-core-second.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    # Code with only names of units need not import reports.
    from projections.reports import Sums

#: Thousandths times seconds of one core or card for an hour.
MILLI_HOUR = 3_600_000


class Unit(StrEnum):
    """How amounts are counted."""

    HOURS = "hours"
    SECONDS = "seconds"
    EXACT = "exact"
    PERCENT = "percent"


#: Unit → (name, attribute of the sums, divisor). Percent divides by the whole.
NAMES: dict[Unit, tuple[tuple[str, str, int], ...]] = {
    Unit.HOURS: (
        ("core_hours", "cpu_milli_s", MILLI_HOUR),
        ("gpu_hours", "gpu_milli_s", MILLI_HOUR),
        ("memory_gib_hours", "memory_mib_s", 1024 * 3_600),
    ),
    Unit.SECONDS: (
        ("core_seconds", "cpu_milli_s", 1_000),
        ("gpu_seconds", "gpu_milli_s", 1_000),
        ("memory_gib_seconds", "memory_mib_s", 1_024),
    ),
    Unit.EXACT: (
        ("cpu_milli_s", "cpu_milli_s", 1),
        ("gpu_milli_s", "gpu_milli_s", 1),
        ("memory_mib_s", "memory_mib_s", 1),
    ),
    Unit.PERCENT: (
        ("core_percent", "cpu_milli_s", 0),
        ("gpu_percent", "gpu_milli_s", 0),
        ("memory_percent", "memory_mib_s", 0),
    ),
}


def amounts(sums: Sums, unit: Unit, whole: Sums) -> dict[str, int | float]:
    """The three amounts in a unit; percent are of ``whole``, None of nothing is 0."""
    found: dict[str, int | float] = {}
    for name, attribute, divisor in NAMES[unit]:
        amount: int = getattr(sums, attribute)
        if divisor == 1:
            found[name] = amount
        elif divisor:
            found[name] = round(amount / divisor, 6)
        else:
            total: int = getattr(whole, attribute)
            found[name] = round(100 * amount / total, 6) if total else 0.0
    return found


def record(sums: Sums, unit: Unit, whole: Sums, *, amounts: bool = False) -> dict[str, Any]:
    """A group's figures under their names, in order. With ``amounts`` without counts and other times."""
    figures: dict[str, Any] = {} if amounts else {"pods": sums.pods, "held_pods": sums.held_pods}
    figures |= _amounts(sums, unit, whole)
    figures["held_s"] = sums.held_s
    if not amounts:
        figures |= {"waiting_s": sums.waiting_s, "unknown_s": sums.unknown_s}
    return figures


_amounts = amounts
