"""Writes an entry beside a budget: a credit or a refund goes onto the bus, and from there into the ledger like everything else.

Source: docs/architecture.md: corrections are entries, never edits.
"""

from __future__ import annotations

from bus.clock import SystemClock
from bus.events.budgets import BudgetCredited
from bus.waiting import beside
from deploy.runtime.bootstrap import bus, keeper, reach
from deploy.runtime.ledgers import joined_ledger
from deploy.settings.shape import Settings


async def credit(settings: Settings, cluster: str, entry: BudgetCredited) -> int:
    """Publish an entry and return its sequence when the ledger holds it.

    Raises LedgerBusyError beside an import, and what bus and ledger raise.
    """
    event = entry.event(
        cluster=cluster, key=entry.quota, id=f"budget/{cluster}/{entry.ref}", source=f"cli/{entry.author}",
        time_us=SystemClock().now_us(),
    )  # fmt: skip
    with joined_ledger(settings, "budget credit") as (store, held):
        async with bus(settings) as opened:
            keeping = keeper(settings, store, opened.transport, held)
            async with beside(keeping.run()):
                (sequence,) = await opened.transport.publish([event])
                await reach(keeping, sequence)
    return sequence
