"""How far the ledger is and what is parked, for the metrics of the process that writes it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from typing import Protocol

import sqlalchemy as sa

from bus.metrics import Metric, Sample
from projections.engine.store import Store
from projections.engine.tables import parked

#: Between two looks at what is parked.
LOOK_SECONDS = 15.0


class Writes(Protocol):
    """Whoever moves the ledger on."""

    @property
    def sequence(self) -> int:
        """The last event in the ledger."""


class LedgerMetrics:
    """The figures of one ledger; what is parked is looked at now and then, as scrapes shall wait for no database."""

    def __init__(self, store: Store, writer: Writes) -> None:
        self._store = store
        self._writer = writer
        self._parked = 0

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        count = sa.select(sa.func.count()).select_from(parked)
        while True:
            # A database that is away is the writer's trouble, who says so.
            with suppress(sa.exc.SQLAlchemyError):
                [(self._parked,)] = await asyncio.to_thread(self._store.select, count)
            await asyncio.sleep(LOOK_SECONDS)

    def __call__(self) -> Iterator[Metric]:
        """All of them."""
        yield Metric(
            "bursar_ledger_sequence", "gauge", "The last event in the ledger.",
            [Sample(self._writer.sequence)],
        )  # fmt: skip
        yield Metric(
            "bursar_ledger_parked_events", "gauge",
            "Events that could not be read or folded, and are in no figure. 0 is right.", [Sample(self._parked)],
        )  # fmt: skip
