"""Writes an entry beside a budget: a credit or a refund goes onto the bus, and from there into the ledger like all events.

Source: docs/architecture.md: corrections are entries, never edits.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from bus.clock import SystemClock
from bus.envelope import Event
from bus.events.budgets import BudgetCredited
from bus.waiting import beside
from deploy.runtime.bootstrap import bus, filled, keeper, reach
from deploy.runtime.ledgers import joined_ledger
from deploy.settings.shape import Settings


async def credit(
    settings: Settings, cluster: str, entry: BudgetCredited, filling: Callable[[int, int], None]
) -> Event:
    """Publish an entry and return its event, after the ledger holds it and parts changed by an upgrade are filled.

    ``filling`` is called with the number of filled events, of all.

    Raises LedgerBusyError beside an import, and the errors of bus and ledger.
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
                await filled(keeping, filling)
    return msgspec.structs.replace(event, sequence=sequence)
