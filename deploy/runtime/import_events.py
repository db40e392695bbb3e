"""Imports recorded events: onto the bus in windows, and from there into the ledger like all others.

A child process reads and publishes while this one folds and writes; each takes about a core.

Publishing an event twice changes no row of the ledger, but makes the history longer. The bus remembers ids for ten minutes
only. So events of the archive are left out here, and an interrupted import goes on at its last place.

Source: docs/architecture.md; ``docs/history.md`` (importing twice changes nothing).
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager

import msgspec
import sqlalchemy as sa

from bus.clock import SystemClock
from bus.envelope import MALFORMED, Event
from bus.events import OBSERVED, VOCABULARY
from bus.events.histories import HistoryImported
from bus.transport import Transport
from bus.waiting import beside
from deploy.runtime.bootstrap import bus, filled, keeper, reach
from deploy.runtime.forked import Child, Tell, child
from deploy.runtime.ledgers import joined_ledger, reader
from deploy.settings.shape import Settings
from projections.engine.restored import STAND_IN, archived_ids, restored
from projections.engine.store import looking
from projections.engine.tables import parked

#: Events of one publish: the largest window of the bus.
WINDOW = 1_000


class Taken(msgspec.Struct):
    """The result of an import. ``published`` are new in the history; the others were there before.

    ``left_out`` are decisions and other events that are no observation,
    unless they were asked for. ``kinds`` counts them by type.
    """

    events: int = 0
    published: int = 0
    sequence: int = 0
    projected: int = 0
    parked: int = 0
    left_out: int = 0
    kinds: dict[str, int] = {}


#: Told as it goes: events read, and the ledger's sequence.
Progress = Callable[[int, int], None]


def saying(
    settings: Settings, events: Iterable[Event], origin: HistoryImported
) -> AbstractContextManager[Child]:
    """A process to publish ``events`` after :func:`take_in` starts it. To be made before anything is opened.

    Only observations are taken, unless ``origin`` is whole: a foreign file must not pause reactors, change their policies or
    credit budgets. ``origin`` precedes the new events.
    """

    async def work(tell: Tell) -> None:
        taken = Taken()
        wanted = events if origin.whole else _observed(events, taken)
        async with bus(settings, is_checked=False) as opened:
            archive = reader(settings)
            first = _origin(settings, origin)
            await say(opened.transport, archive, wanted, taken, lambda: tell(taken), first)
        # Events left out after the last window.
        tell(taken)

    return child(work)


async def take_in(
    settings: Settings, intake: Child, progress: Progress, filling: Callable[[int, int], None]
) -> Taken:
    """Start publishing (:func:`saying`), and return when the ledger holds all events. Publishing them again is harmless.

    Parts changed by an upgrade are filled by then. ``filling`` is called with the number of filled events, of all.

    Works with a running bus (``bursar up`` on the same data folder) and without one. Raises the errors of reading the
    events, LedgerBusyError beside another import, and the errors of bus and ledger.
    """
    taken = Taken()
    with joined_ledger(settings, "import") as (store, held):
        async with bus(settings) as opened:
            keeping = keeper(settings, store, opened.transport, held)
            async with beside(keeping.run()):
                await reach(keeping, (await opened.transport.head()).last_sequence)
                async for taken in intake.results():
                    progress(taken.events, keeping.sequence)

                def show(sequence: int) -> None:
                    progress(taken.events, sequence)

                taken.sequence = (await opened.transport.head()).last_sequence
                await reach(keeping, taken.sequence, show)
                await filled(keeping, filling)
                taken.projected = keeping.sequence
            taken.parked = store.select(sa.select(sa.func.count()).select_from(parked))[0][0]
    return taken


async def say(
    transport: Transport,
    archive: sa.Engine,
    events: Iterable[Event],
    taken: Taken,
    show: Callable[[], None],
    first: Event | None = None,
) -> None:
    """Publish the ``events`` missing from the archive, and count them in ``taken``; ``first`` goes before all of them."""
    before = (await transport.head()).last_sequence
    known = await asyncio.to_thread(_known, archive)
    for window in _windows(events):
        fresh = [_carried(event) for event in window]
        fresh = [event for event in fresh if not known or _short(event.id) not in known]
        if fresh and first is not None:
            await transport.publish([first])
            first = None
        sequences = await transport.publish(fresh) if fresh else []
        # A file may say an event twice: later than the bus remembers ids it would be stored again.
        known.update(_short(event.id) for event in fresh)
        taken.events += len(window)
        taken.published += len({sequence for sequence in sequences if sequence > before})
        show()


def _observed(events: Iterable[Event], taken: Taken) -> Iterator[Event]:
    """The observations among ``events``, and unreadable entries, since they have no effect; the rest is counted."""
    for event in events:
        if event.type in OBSERVED or event.type in (MALFORMED, STAND_IN):
            yield event
        else:
            taken.left_out += 1
            kind = event.type if event.type in VOCABULARY else "unknown"
            taken.kinds[kind] = taken.kinds.get(kind, 0) + 1


def _origin(settings: Settings, origin: HistoryImported) -> Event:
    now_us = SystemClock().now_us()
    return origin.event(
        cluster=settings.cluster.name,
        key="history",
        id=f"{origin.wire_type}/{now_us}",
        source="import",
        time_us=now_us,
    )


def _windows(events: Iterable[Event]) -> Iterator[list[Event]]:
    rest = iter(events)
    while window := list(itertools.islice(rest, WINDOW)):
        yield window


def _carried(event: Event) -> Event:
    """``event``; one that an earlier version exported as unreadable gets the form of the bus."""
    return restored(event) if event.type == MALFORMED else event


def _known(archive: sa.Engine) -> set[bytes]:
    """Ids in the archive, shortened: about 100 MB of memory for a million."""
    with looking(archive) as connection:
        return {_short(id) for id in archived_ids(connection)}


def _short(id: str) -> bytes:
    return hashlib.blake2b(id.encode("utf-8", "surrogatepass"), digest_size=16).digest()
