"""Takes recorded events in: onto the bus in windows, and from there into the ledger like everything else.

Saying an event twice changes no books, but it makes the history longer, and the bus remembers ids for ten minutes
only. So what the archive has already is left out here; an import that was interrupted goes on where it stood.

Source: ``house.md`` 3.3; ``docs/history.md`` (importing twice changes nothing).
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
from collections.abc import Callable, Iterable, Iterator

import msgspec
import sqlalchemy as sa

from bus.envelope import Event
from bus.transport import Transport
from deploy.bootstrap import beside, bus, keeper, reach
from deploy.ledgers import ledger
from deploy.settings import Settings
from projections.engine.store import Store
from projections.engine.tables import events as archive
from projections.engine.tables import parked

#: Events of one publish: the largest window of the bus.
WINDOW = 1_000


class Taken(msgspec.Struct):
    """What came of an import. ``published`` are new in the history; the rest was there before."""

    events: int = 0
    published: int = 0
    sequence: int = 0
    projected: int = 0
    parked: int = 0


#: Told as it goes: events read, and the ledger's sequence.
Told = Callable[[int, int], None]


async def take_in(settings: Settings, events: Iterable[Event], told: Told) -> Taken:
    """Publish ``events`` and return when the ledger holds them all. Saying them again is harmless.

    Works with a bus that runs already (``bursar up`` on the same data folder) and without one. Raises what ``events``
    raises, LedgerBusyError beside another import, and what bus and ledger raise.
    """
    taken = Taken()
    with ledger(settings) as store:
        async with bus(settings) as opened:
            with keeper(settings, store, opened.transport, "import", joins=True) as keeping:
                async with beside(keeping.run()):
                    await reach(keeping, (await opened.transport.head()).last_sequence)

                    def show() -> None:
                        told(taken.events, keeping.sequence)

                    await say(opened.transport, store, events, taken, show)
                    taken.sequence = (await opened.transport.head()).last_sequence
                    await reach(keeping, taken.sequence, lambda _: show())
                    taken.projected = keeping.sequence
            taken.parked = store.select(sa.select(sa.func.count()).select_from(parked))[0][0]
    return taken


async def say(
    transport: Transport,
    store: Store,
    events: Iterable[Event],
    taken: Taken,
    show: Callable[[], None],
) -> None:
    """Publish the ``events`` that the archive does not have, counting them in ``taken``."""
    before = (await transport.head()).last_sequence
    known = await asyncio.to_thread(_known, store)
    for window in _windows(events):
        fresh = [event for event in window if not known or _short(event.id) not in known]
        sequences = await transport.publish(fresh) if fresh else []
        taken.events += len(window)
        taken.published += len({sequence for sequence in sequences if sequence > before})
        show()


def _windows(events: Iterable[Event]) -> Iterator[list[Event]]:
    rest = iter(events)
    while window := list(itertools.islice(rest, WINDOW)):
        yield window


def _known(store: Store) -> set[bytes]:
    """Ids in the archive, shortened: about 100 MB of memory for a million."""
    query = sa.select(archive.c.id).execution_options(yield_per=10_000)
    with store.engine.connect() as connection:
        return {_short(row[0]) for row in connection.execute(query)}


def _short(id: str) -> bytes:
    return hashlib.blake2b(id.encode("utf-8", "surrogatepass"), digest_size=16).digest()
