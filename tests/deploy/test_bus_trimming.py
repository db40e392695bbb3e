"""The bus gives up what verified segments hold, when all have read it and it is old; nothing else leaves it unseen."""

import asyncio
import json
import signal
import sys
import time
from pathlib import Path

import msgspec
import pytest

from bus import crashpoints
from bus.errors import DamagedSegmentError, HistoryDivergedError, WrongExpectationError
from bus.jetstream.connection import Connection
from bus.transport import Expectation
from deploy.runtime.bootstrap import bus
from projections.catalogue import MODEL
from projections.engine.recover import recover
from projections.engine.segments import reading
from projections.engine.segments.sealing import Sealer
from projections.engine.verify import verify
from tests.deploy.ledgers import process
from tests.deploy.trimming import APART_SECONDS, EVERY, followed, opened, settings_of, trimmed
from tests.projections.engine.archives import lives

pytestmark = pytest.mark.nats
EVENTS = [msgspec.structs.replace(event, sequence=0) for event in lives(25)]
#: Of these so many are old. The first event where all that may go is gone: what is as old as the last of it goes, too.
OLD = 70
GONE = range(3 * EVERY + 1, OLD + 2)
LABELS = [one for one in crashpoints.LABELS if one.startswith("bus_trim.")]


@pytest.fixture
async def place(tmp_path):
    """Settings, the open bus and the store of a ledger that has read all; its first segments are old."""
    settings = settings_of(tmp_path)
    with opened(settings) as store:
        async with bus(settings) as found:
            # No age may be below it.
            await limit(found, settings, duplicate_window=100_000_000)
            await found.transport.publish(EVENTS[:OLD])
            await asyncio.sleep(APART_SECONDS)
            await found.transport.publish(EVENTS[OLD:])
            await followed(settings, store, found.transport)
            yield settings, found, store


async def recovery(found, settings):
    address = json.loads((settings.data / "bus" / "address.json").read_bytes())
    return await Connection.open(address["url"], credentials=("recovery", address["recovery_password"]))  # fmt: skip


async def configuration(found, settings):
    door = await recovery(found, settings)
    try:
        return json.loads(await door.ask("STREAM.INFO.HISTORY"))["config"]
    finally:
        await door.close()


async def limit(found, settings, **changes):
    door = await recovery(found, settings)
    config = json.loads(await door.ask("STREAM.INFO.HISTORY"))["config"] | changes
    await door.ask("STREAM.UPDATE.HISTORY", json.dumps(config).encode())
    await door.close()


def whole(store):
    return [event.id for part in reading.history(store.select) for event in part]


async def test_old_sealed_events_leave_the_bus_and_the_ledger_goes_on(place):
    settings, found, store = place
    assert await trimmed(settings, store)
    head = await found.transport.head()

    assert head.first_sequence in GONE and head.last_sequence == len(EVENTS)
    config = await configuration(found, settings)
    assert (config["max_age"], config["deny_purge"], config["deny_delete"]) == (0, True, True)
    assert {line.property: line.state for line in await found.transport.guard()}["max_age"] == "OK"
    more = [msgspec.structs.replace(event, id=f"more/{event.id}") for event in EVENTS[-5:]]
    await found.transport.publish(more)
    await followed(settings, store, found.transport)
    assert whole(store) == [event.id for event in (*EVENTS, *more)]
    assert verify(MODEL, store).ok
    done = await recover(MODEL, store, found.transport)
    assert (done.common, done.published, done.lost) == (len(EVENTS) + 5, 0, 0)


async def test_events_behind_the_last_segment_stay_whatever_their_age(tmp_path):
    """The server drops whatever is as old as the last event of a segment: a ledger cannot follow a bus that begins behind that."""
    settings = settings_of(tmp_path)
    with opened(settings) as store:
        async with bus(settings) as found:
            await limit(found, settings, duplicate_window=100_000_000)
            for part in (EVENTS[:30], EVENTS[30:70], EVENTS[70:71]):
                await found.transport.publish(part)
                await asyncio.sleep(APART_SECONDS)
            await followed(settings, store, found.transport)
            assert reading.sealed_until(store.select) == 3 * EVERY
            await trimmed(settings, store)

            assert (await found.transport.head()).first_sequence in range(EVERY + 1, 32)
            await followed(settings, store, found.transport)


async def test_a_proof_that_takes_long_lets_no_more_events_go(place, monkeypatch):
    settings, found, store = place
    prove = Sealer.prove

    def proves_slowly(sealer, segment):
        prove(sealer, segment)
        time.sleep(APART_SECONDS)

    monkeypatch.setattr(Sealer, "prove", proves_slowly)
    assert await trimmed(settings, store)
    assert (await found.transport.head()).first_sequence in GONE


async def test_a_reader_that_is_behind_keeps_its_events(place):
    settings, found, store = place
    slow = found.transport.read(after=0, batch=5)
    seen = await anext(slow)

    await trimmed(settings, store)
    async for part in slow:
        seen += part
        if len(seen) == len(EVENTS):
            break
    await slow.aclose()
    assert [event.sequence for event in seen] == [*range(1, len(EVENTS) + 1)]


async def test_a_damaged_segment_keeps_its_events_on_the_bus(place):
    settings, found, store = place
    oldest = min((settings.data / "segments").iterdir())
    oldest.write_bytes(oldest.read_bytes()[:-1])

    with pytest.raises(DamagedSegmentError, match=oldest.name):
        await trimmed(settings, store)
    assert (await found.transport.head()).first_sequence == 1


@pytest.mark.parametrize("label", LABELS)
async def test_a_kill_at_any_label_loses_nothing(place, label):
    settings, found, store = place
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.deploy.trimming_process", settings.data, label,
        cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert await child.wait() == -signal.SIGKILL

    first = (await found.transport.head()).first_sequence
    assert first == 1 if label == LABELS[0] else EVERY < first <= OLD + 1
    assert bool((await configuration(found, settings))["max_age"]) == (label == "bus_trim.after_limit")  # fmt: skip
    on_bus = [
        e.id async for part in found.transport.read(after=first - 1, live=False) for e in part
    ]
    assert on_bus == [event.id for event in EVENTS[first - 1 :]]
    await followed(settings, store, found.transport)
    await trimmed(settings, store)
    assert (await configuration(found, settings))["max_age"] == 0
    assert (await found.transport.head()).first_sequence in GONE
    assert whole(store) == [event.id for event in EVENTS]
    assert verify(MODEL, store).ok


async def test_an_interrupted_trimming_is_undone_at_the_next_start(place):
    settings, found, _ = place
    await limit(found, settings, max_age=40 * 86_400 * 10**9)
    assert {line.property: line.state for line in await found.transport.guard()}["max_age"] == "WEAK"  # fmt: skip
    assert await _settled(settings)
    assert (await configuration(found, settings))["max_age"] == 0


async def _settled(settings):
    address = json.loads((settings.data / "bus" / "address.json").read_bytes())
    from bus.jetstream import JetStream
    from bus.streams import history

    door = await JetStream.connect(address["url"], history(), credentials=("recovery", address["recovery_password"]))  # fmt: skip
    try:
        return not await door.settle()
    finally:
        await door.close()


async def test_a_bus_that_lost_more_than_is_sealed_is_a_fault(place):
    settings, found, store = place
    sealed = reading.sealed_until(store.select)
    assert sealed < len(EVENTS) - 1
    await limit(found, settings, discard="old", max_msgs=len(EVENTS) - sealed - 1)
    await limit(found, settings, discard="new", max_msgs=-1)
    assert (await found.transport.head()).first_sequence == sealed + 2

    with pytest.raises(HistoryDivergedError, match="lost its beginning, which is not sealed"):
        await followed(settings, store, found.transport)
    status = await asyncio.to_thread(process, "status", "--data", settings.data, "-o", "json")
    assert (status.returncode, "and 1 before it are not sealed" in status.stdout) == (7, True)
    with pytest.raises(HistoryDivergedError, match="made anew"):
        await recover(MODEL, store, found.transport)


async def test_a_writer_whose_last_event_was_trimmed_writes_on(place):
    settings, found, store = place
    last = {event.subject: number for number, event in enumerate(EVENTS, 1)}
    subject, number = min(last.items(), key=lambda item: item[1])
    await trimmed(settings, store)
    assert number < (await found.transport.head()).first_sequence
    kept = [msgspec.structs.replace(EVENTS[number - 1], id=f"again/{n}") for n in range(3)]

    (first,) = await found.transport.publish(kept[:1], expect=Expectation(subject, number))
    with pytest.raises(WrongExpectationError):
        await found.transport.publish(kept[1:2], expect=Expectation(subject, number))
    assert await found.transport.publish(kept[1:], expect=Expectation(subject, first)) == [first + 1, first + 2]  # fmt: skip
