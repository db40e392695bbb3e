"""Credits and refunds beside the budget of a quota.

An entry is never edited and never doubled: of two with one ``ref`` the earlier counts, whichever arrived first.

Source: docs/architecture.md (corrections are entries).
"""

from __future__ import annotations

import msgspec
import sqlalchemy as sa

from bus.clock import SECOND_US
from bus.envelope import Event
from bus.events.budgets import BudgetCredited
from projections.budgets.periods import Period
from projections.engine.codec import Codec
from projections.engine.contract import Integer, Key, Projection, row_table

budget_entries = row_table(
    "budget_entries",
    sa.Column("cluster", sa.Text, primary_key=True),
    sa.Column("ref", sa.Text, primary_key=True),
    sa.Column("quota", sa.Text, nullable=False),
    sa.Column("key", sa.Text, nullable=False),
    sa.Column("amount", Integer, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("author", sa.Text, nullable=False),
    sa.Column("since_us", Integer, nullable=False),
    sa.Column("time_us", Integer, nullable=False),
    sa.Index("budget_entries_by_quota", "cluster", "quota", "key"),
)


class BudgetEntry(msgspec.Struct, frozen=True):
    """One row: the recorded credit, its time (``time_us``), and its cluster. Amounts in unit·seconds."""

    cluster: str
    fact: BudgetCredited
    time_us: int
    sequence: int = 0


def keys(fact: BudgetCredited, event: Event) -> tuple[Key]:
    """One entry: (cluster, ref)."""
    return ((event.cluster, fact.ref),)


def fold(row: BudgetEntry | None, fact: BudgetCredited, event: Event) -> BudgetEntry:
    """The entry recorded first; the text decides between two of one moment."""
    if row is not None and _order(row.time_us, row.fact) <= _order(event.time_us, fact):
        return row
    return BudgetEntry(event.cluster, fact, event.time_us, event.sequence)


def _order(time_us: int, fact: BudgetCredited) -> tuple[int, bytes]:
    return (time_us, msgspec.json.encode(fact))


def credited(entries: list[BudgetEntry], key: str, period: Period) -> int:
    """The entries' addition to the budget of ``key`` in a period; below 0 if they take more than they give."""
    total = 0
    for entry in entries:
        since_s = entry.fact.since_us // SECOND_US
        is_in = period.start_s <= since_s and (period.end_s is None or since_s < period.end_s)
        if entry.fact.key == key and is_in:
            total += entry.fact.amount
    return total


codec = Codec(BudgetEntry, budget_entries, spread="fact")

projection = Projection(
    name="budget_entries",
    version=1,
    table=budget_entries,
    facts=(BudgetCredited,),
    keys=keys,
    fold=fold,
    codec=codec,
)
