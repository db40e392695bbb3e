"""Takes recorded events in: onto the bus in windows, and from there into the ledger like everything else.

A child process reads and publishes while this one folds and writes; each takes about a core.

Saying an event twice changes no row of the ledger, but it makes the history longer, and the bus remembers ids for ten minutes
only. So what the archive has already is left out here; an import that was interrupted goes on where it stood.

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
    """What came of an import. ``published`` are new in the history; the rest was there before.

    ``left_out`` are decisions and what else is no observation, which was not asked for; ``kinds`` says how many of which type.
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
    """A process that will publish ``events`` once :func:`take_in` lets it. To be made before anything is opened.

    Only observations are taken, unless ``origin`` is whole: a file of another's must not pause reactors, change their policies or
    credit budgets. What is new is preceded by ``origin``.
    """

    async def work(tell: Tell) -> None:
        taken = Taken()
        wanted = events if origin.whole else _observed(events, taken)
        async with bus(settings, is_checked=False) as opened:
            archive = reader(settings)
            first = _origin(settings, origin)
            await say(opened.transport, archive, wanted, taken, lambda: tell(taken), first)
        # What was left out behind the last window.
        tell(taken)

    return child(work)


async def take_in(
    settings: Settings, intake: Child, progress: Progress, filling: Callable[[int, int], None]
) -> Taken:
    """Let events be published (:func:`saying`) and return when the ledger holds them all. Saying them again is harmless.

    What an upgrade changed is filled by then. ``filling``: told of events that are filled, of so many.

    Works with a bus that runs already (``bursar up`` on the same data folder) and without one. Raises what the reading of the
    events raises, LedgerBusyError beside another import, and what bus and ledger raise.
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
    """Publish the ``events`` that the archive does not have, counting them in ``taken``; ``first`` before the first of them."""
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
    """The observations among ``events``, and what is no event, which nobody obeys; the rest is counted."""
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
    """``event``; what an earlier version exported as unreadable in the form that a bus takes."""
    return restored(event) if event.type == MALFORMED else event


def _known(archive: sa.Engine) -> set[bytes]:
    """Ids in the archive, shortened: about 100 MB of memory for a million."""
    with looking(archive) as connection:
        return {_short(id) for id in archived_ids(connection)}


def _short(id: str) -> bytes:
    return hashlib.blake2b(id.encode("utf-8", "surrogatepass"), digest_size=16).digest()
