"""A bus that lacks its beginning: where segments hold it, it was trimmed; else it lost it."""

import pytest

from bus.errors import HistoryDivergedError
from bus.memory import MemoryTransport
from projections.catalogue import MODEL
from projections.engine.checkpoint import confirm
from projections.engine.recover import recover
from projections.engine.segments.reading import sealed_until
from tests.projections.engine.segments.histories import EVERY, HISTORY, SEGMENTS, made, opened

SEALED, LAST = EVERY * SEGMENTS, len(HISTORY)


@pytest.fixture
def store(tmp_path):
    made(tmp_path)
    found = opened(tmp_path)
    yield found
    found.close()


def beginning(first, last=LAST):
    """A bus with the events from ``first`` to ``last``."""
    bus = MemoryTransport(first_sequence=first)
    bus.events = HISTORY[first - 1 : last]
    bus._known = {event.id: event for event in bus.events}
    return bus


@pytest.mark.parametrize("first", [1, EVERY, EVERY + 1, SEALED, SEALED + 1])
async def test_a_bus_that_lacks_what_is_sealed_is_the_ledgers(store, first):
    checkpoint, bus = store.checkpoint(MODEL.version), beginning(first)
    bound = await confirm(checkpoint, bus, sealed_until(store.select))
    done = await recover(MODEL, store, bus)

    assert bound.sequence == LAST
    assert (done.common, done.published, done.taken, done.lost) == (LAST, 0, 0, 0)


async def test_a_trimmed_bus_that_lost_its_end_gets_it_back(store):
    bus = beginning(EVERY + 1, 2 * EVERY)
    done = await recover(MODEL, store, bus)

    assert (done.common, done.published) == (2 * EVERY, LAST - 2 * EVERY)
    assert [event.sequence for event in bus.events] == [*range(EVERY + 1, LAST + 1)]


async def test_a_bus_that_lacks_more_than_is_sealed_lost_it(store):
    checkpoint, bus = store.checkpoint(MODEL.version), beginning(SEALED + 2)

    with pytest.raises(HistoryDivergedError, match="lost its beginning, which is not sealed"):
        await confirm(checkpoint, bus, sealed_until(store.select))
    with pytest.raises(HistoryDivergedError, match="must be made anew"):
        await recover(MODEL, store, bus)


async def test_what_neither_bus_nor_ledger_has_is_counted(store):
    """A ledger of an old backup, and a bus that was trimmed beyond its end."""
    bus = MemoryTransport(first_sequence=LAST + 8)
    anew = MemoryTransport()

    async def renew(last):
        return anew

    assert (await recover(MODEL, store, bus, renew)).lost == 7
    assert len(anew.events) == LAST
