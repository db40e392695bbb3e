"""Runs a recovery: the ledger's archive against the bus of the settings.

An ordinary user of the bus has no right to recreate a stream. The embedded server is
stopped, its store moved aside (nothing is deleted) and started empty. External servers are left to their administrator.

Source: docs/architecture.md; :mod:`projections.engine.recover`.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

from bus.clock import SystemClock
from bus.envelope import Event
from bus.errors import HistoryDivergedError
from bus.events.histories import HistoryRecovered
from bus.transport import Transport
from deploy.runtime.bootstrap import bus
from deploy.settings.shape import Settings
from projections.catalogue import MODEL
from projections.engine.recover import Progress, Recovery, recover
from projections.engine.store import Store


async def recovered(
    settings: Settings, store: Store, *, renews: bool, progress: Progress
) -> Recovery:
    """Bring stream and ledger together. Raises HistoryDivergedError where the stream must be made anew and may not."""
    async with AsyncExitStack() as stack:
        opened = await stack.enter_async_context(bus(settings))

        async def renew(last_sequence: int) -> Transport:
            if (await opened.transport.head()).last_sequence != last_sequence:
                raise HistoryDivergedError("someone still writes to the stream: end it first")
            await stack.aclose()
            _move_aside(settings.data / "bus" / "store")
            again = await stack.enter_async_context(bus(settings))
            return again.transport

        may_renew = renews and opened.started
        found = await recover(
            MODEL, store, opened.transport, renew if may_renew else None, progress=progress
        )
    async with bus(settings) as again:
        await again.transport.publish([_recovered(settings.cluster.name, found)])
    return found


def _recovered(cluster: str, found: Recovery) -> Event:
    """The event of a recovery: reactors pause for a while. It is published even if nothing was left to do: an earlier attempt
    may have been interrupted before its own event.
    """
    fact = HistoryRecovered(
        incarnation=found.incarnation, published=found.published, taken=found.taken,
        altered=found.altered, lost=found.lost,
    )  # fmt: skip
    now_us = SystemClock().now_us()
    id = f"{HistoryRecovered.wire_type}/{now_us}"
    return fact.event(cluster=cluster, key="history", id=id, source="recover", time_us=now_us)


def _move_aside(path: Path) -> None:
    number = 1
    while (aside := path.with_name(f"{path.name}.before-{number}")).exists():
        number += 1
    path.rename(aside)
