"""Stream and ledger after a loss: brought together, nothing given up, from wherever a recovery was broken off."""

import shutil

import msgspec
import pytest

from bus import crashpoints
from bus.envelope import MALFORMED, Event
from bus.errors import HistoryDivergedError, LedgerError
from bus.memory import MemoryTransport
from projections.catalogue import MODEL
from projections.engine.checkpoint import confirm
from projections.engine.dump import digest
from projections.engine.recover import recover
from projections.engine.store import Store, engine
from projections.engine.verify import verify
from tests import factories as given
from tests.projections.engine.archives import fill, ledger, lives

LIVES = lives(12)
OTHERS = [given.pod_observed(f"late-{n}", 1, 9_000 + n, created=9_000 + n) for n in range(7)]


@pytest.fixture
async def lost(tmp_path):
    """A ledger of all :data:`LIVES`, and the stream it was read from."""
    store = ledger(f"sqlite:///{tmp_path / 'ledger.db'}")
    transport = MemoryTransport()
    await transport.publish(LIVES)
    checkpoint = fill(store, transport.events, batch=7)
    await bind(store, checkpoint, transport)
    yield store, transport
    store.close()


async def bind(store, checkpoint, transport):
    bound = await confirm(checkpoint, transport)
    with store.engine.begin() as connection:
        store._move(connection, bound)


def stream(events=(), *, created_us=1):
    """A stream that holds exactly ``events``, as a server that lost the rest would show it."""
    transport = MemoryTransport(created_us=created_us)
    transport.events = list(events)
    transport._known = {event.id: event for event in events}
    return transport


class Renewing:
    """An adapter that can make its stream anew: what ``renew`` is asked for, and the newest stream."""

    def __init__(self, transport):
        self.transport = transport
        self.asked = []

    async def renew(self, last):
        head = await self.transport.head()
        if head.last_sequence != last:
            raise HistoryDivergedError(last=last)
        self.asked.append(last)
        self.transport = MemoryTransport(created_us=head.created_us + 1)
        return self.transport


async def test_a_healthy_stream_is_left_alone(lost):
    store, transport = lost

    assert (await recover(MODEL, store, transport)).published == 0
    assert store.checkpoint(MODEL.version).incarnation == 1


async def test_a_stream_that_runs_ahead_of_the_ledger_is_left_alone(lost):
    store, transport = lost
    await transport.publish(OTHERS)

    found = await recover(MODEL, store, transport)

    assert (found.taken, found.published, found.common) == (0, 0, len(LIVES))


@pytest.mark.parametrize("kept", [0, 1, 30, len(LIVES) - 1])
async def test_a_lost_tail_comes_back_at_its_own_sequences(lost, kept):
    """docs/wrong-input.md E7: the recovery of a regression."""
    store, transport = lost
    shorter = stream(transport.events[:kept])

    found = await recover(MODEL, store, shorter)

    assert shorter.events == transport.events
    assert (found.common, found.published) == (kept, len(LIVES) - kept)
    assert store.checkpoint(MODEL.version) == await confirm(
        store.checkpoint(MODEL.version), shorter
    )


async def test_a_stream_made_anew_is_filled_and_counted_as_another_incarnation(lost):
    store, transport = lost
    empty = stream(created_us=2)

    found = await recover(MODEL, store, empty)

    assert empty.events == transport.events
    assert (found.published, found.incarnation) == (len(LIVES), 2)
    assert store.checkpoint(MODEL.version).stream_created_us == 2


async def _others_on(created_us, kept, transport):
    other = stream(transport.events[:kept], created_us=created_us)
    await other.publish(OTHERS)
    return Renewing(other)


@pytest.mark.parametrize("kept", [0, 5, len(LIVES) - 3])
async def test_events_said_after_the_loss_are_taken_behind_the_archive(lost, kept):
    store, transport = lost
    door = await _others_on(1, kept, transport)

    found = await recover(MODEL, store, door.transport, door.renew)

    assert [event.id for event in door.transport.events] == [e.id for e in (*LIVES, *OTHERS)]
    assert (found.taken, found.altered, found.incarnation) == (len(OTHERS), 0, 2)
    assert store.checkpoint(MODEL.version).sequence == len(LIVES) + len(OTHERS)
    assert verify(MODEL, store).ok


async def test_other_events_without_a_way_to_renew_are_refused_and_change_nothing(lost):
    store, transport = lost
    door = await _others_on(1, 5, transport)
    before = store.checkpoint(MODEL.version)

    with pytest.raises(HistoryDivergedError, match="made anew"):
        await recover(MODEL, store, door.transport)

    assert store.checkpoint(MODEL.version) == before


async def test_an_altered_event_gives_way_to_the_archive(lost):
    """docs/wrong-input.md E7: the recovery of a digest that does not match."""
    store, transport = lost
    events = list(transport.events)
    events[60] = msgspec.structs.replace(events[60], body=events[61].body)
    door = Renewing(stream(events))

    found = await recover(MODEL, store, door.transport, door.renew)

    assert door.transport.events == transport.events
    assert (found.common, found.taken, found.altered) == (0, 0, 1)


async def test_a_hole_in_the_stream_is_filled(lost):
    """docs/wrong-input.md E7: the recovery of a gap."""
    store, transport = lost
    door = Renewing(stream(transport.events[:20] + transport.events[25:]))

    found = await recover(MODEL, store, door.transport, door.renew)

    assert (door.transport.events, found.taken) == (transport.events, 0)


async def test_a_stream_whose_beginning_is_gone_is_made_anew(lost):
    store, transport = lost
    late = stream(transport.events[50:])
    late.first_sequence = 51
    door = Renewing(late)

    await recover(MODEL, store, late, door.renew)

    assert door.transport.events == transport.events


async def test_what_cannot_return_as_it_was_keeps_its_sequence(tmp_path):
    store = ledger(f"sqlite:///{tmp_path / 'ledger.db'}")
    twice = given.pod_observed("twice", 1, 5)
    raw = Event("c", MALFORMED, "", "malformed/2", "bus", 0, b"\xff\x00", 1, 2, "no headers")
    events = [twice, raw, given.pod_observed("x"), twice]
    events = [msgspec.structs.replace(e, sequence=n) for n, e in enumerate(events, 1)]
    fill(store, events)
    empty = stream(created_us=2)

    found = await recover(MODEL, store, empty)
    again = await recover(MODEL, store, empty)

    assert [event.sequence for event in empty.events] == [1, 2, 3, 4]
    assert (found.published, again.published) == (4, 0)
    assert await confirm(store.checkpoint(MODEL.version), empty) == store.checkpoint(MODEL.version)
    assert verify(MODEL, store).ok
    store.close()


async def test_a_writer_that_goes_on_is_noticed(lost):
    store, transport = lost
    shorter = stream(transport.events[:5])
    said = iter(OTHERS)
    publish = shorter.publish

    async def raced(events, *, expect=None):
        await publish([next(said)])
        return await publish(events, expect=expect)

    shorter.publish = raced

    with pytest.raises(HistoryDivergedError, match="someone else"):
        await recover(MODEL, store, shorter)


async def test_a_damaged_archive_is_not_published(lost):
    store, _ = lost
    with store.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE events SET body = x'7b7d' WHERE sequence = 40")

    with pytest.raises(LedgerError, match="damaged"):
        await recover(MODEL, store, stream())


class _Crash(BaseException):
    pass


@pytest.mark.parametrize("kept", [0, 40])
async def test_a_recovery_broken_off_anywhere_is_started_again(tmp_path, monkeypatch, kept):
    monkeypatch.setattr("projections.engine.recover.WINDOW", 20)
    whole = MemoryTransport()
    await whole.publish(LIVES)
    store = ledger(f"sqlite:///{tmp_path / '0.db'}")
    await bind(store, fill(store, whole.events), whole)
    store.close()
    outcomes = set()
    for point in range(1, 200):
        shutil.copy(tmp_path / "0.db", tmp_path / f"{point}.db")
        store = Store(engine(f"sqlite:///{tmp_path / f'{point}.db'}"))
        door = await _others_on(1, kept, whole)
        reached = await _broken_off_at(point, store, door)
        outcomes.add(
            (
                digest(MODEL, store),
                store.checkpoint(MODEL.version).chain,
                store.checkpoint(MODEL.version).incarnation,
                tuple(door.transport.events),
            )
        )
        store.close()
        if not reached:
            break

    assert point > 20
    assert len(outcomes) == 1


async def _broken_off_at(point, store, door):
    """Recover, crash at the n-th crash point, recover again; whether there was such a point."""
    left = point

    def hook(_):
        nonlocal left
        left -= 1
        if left == 0:
            raise _Crash

    crashpoints.install(hook)
    try:
        await recover(MODEL, store, door.transport, door.renew)
        return False
    except _Crash:
        return True
    finally:
        crashpoints.install(None)
        await recover(MODEL, store, door.transport, door.renew)
