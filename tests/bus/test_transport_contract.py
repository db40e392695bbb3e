"""One suite, all adapters: what every transport promises, kept in process and on a real nats-server, read alone and shared."""

import asyncio
import contextlib
import random

import msgspec
import pytest

from bus.embedded import EmbeddedServer
from bus.envelope import Event
from bus.errors import (
    DuplicateIdError,
    EnvelopeError,
    HistoryDivergedError,
    WrongExpectationError,
)
from bus.jetstream import JetStream
from bus.jetstream.adapter import configuration
from bus.jetstream.connection import Connection
from bus.memory import MemoryTransport
from bus.sharing import SharedReading
from bus.streams import history
from bus.transport import Expectation


class InMemory:
    """The memory adapter and the damage that a test can do to it."""

    read_by = None

    def __init__(self):
        self.transport = MemoryTransport()

    async def lose(self, sequence):
        del self.transport.events[sequence - 1]

    async def forget_all(self):
        self.transport.events.clear()
        await self.transport.publish([])

    async def close(self):
        await self.transport.close()


class OnJetStream:
    """The JetStream adapter, its server, and the damage that `recovery` could do to an unguarded stream."""

    read_by = None

    @classmethod
    async def start(cls, folder):
        self = cls()
        self.server = EmbeddedServer(folder)
        await self.server.start()
        self.transport = await JetStream.connect(
            self.server.url, history(), credentials=self.server.credentials
        )
        return self

    async def _ask(self, subject, body):
        recovery = await Connection.open(
            self.server.url, credentials=("recovery", self.server.address.recovery_password)
        )
        try:
            await recovery.ask(subject, msgspec.json.encode(body))
        finally:
            await recovery.close()

    async def lose(self, sequence):
        stream = configuration(history()) | {"deny_delete": False}
        copied = [
            event async for batch in self.transport.read(after=0, live=False) for event in batch
        ]
        await self._ask("STREAM.DELETE.HISTORY", {})
        await self._ask("STREAM.CREATE.HISTORY", stream)
        await self.transport.publish(copied)
        await self._ask("STREAM.MSG.DELETE.HISTORY", {"seq": sequence})

    async def forget_all(self):
        await self._ask("STREAM.DELETE.HISTORY", {})

    async def close(self):
        await self.transport.close()
        await self.server.stop()


DOORS = ["memory", "shared memory"]
DOORS += [pytest.param(name, marks=pytest.mark.nats) for name in ("jetstream", "shared jetstream")]


@pytest.fixture(params=DOORS)
async def bus(request, tmp_path):
    bus = InMemory() if "memory" in request.param else await OnJetStream.start(tmp_path)
    if "shared" in request.param:
        bus.read_by = SharedReading(bus.transport)
    yield bus
    await bus.close()


@pytest.fixture
async def transport(bus):
    return bus.read_by or bus.transport


def said(number, **changes):
    """The event number `number` of a small world of 50 pods."""
    body = b'{"phase":"Running","n":%d}' % number
    time_us = 1_700_000_000_000_000 + number
    event = Event(
        "c1", "pod.observed", f"pod-{number % 50}", f"uid-{number}/1", "watch", time_us, body
    )
    return msgspec.structs.replace(event, **changes)


async def everything(transport, after=0, batch=1000):
    return [e async for part in transport.read(after=after, batch=batch, live=False) for e in part]


async def take(transport, count, after=0):
    """The first `count` events of a live read, which is then dropped."""
    found = []
    async with asyncio.timeout(20), contextlib.aclosing(transport.read(after=after)) as batches:
        async for part in batches:
            found += part
            if len(found) >= count:
                break
    return found


async def test_events_come_back_in_order_with_their_sequences(transport):
    events = [said(n) for n in range(25)]

    sequences = await transport.publish(events)
    read = await everything(transport)

    assert sequences == list(range(1, 26))
    assert read == [
        msgspec.structs.replace(e, sequence=s) for e, s in zip(events, sequences, strict=True)
    ]


async def test_nothing_published_is_nothing_stored(transport):
    assert await transport.publish([]) == []
    assert (await transport.head()).last_sequence == 0
    assert await everything(transport) == []


async def test_odd_texts_survive(transport):
    event = said(1, key="käse/ü 😀", id="ü: b", source="a:b", body='{"ü":" \u2028"}'.encode())

    await transport.publish([event])

    assert await everything(transport) == [msgspec.structs.replace(event, sequence=1)]


async def test_a_known_id_is_stored_once_and_answers_with_its_place(transport):
    """docs/wrong-input.md E4, the same body: ignored."""
    await transport.publish([said(n) for n in range(10)])

    sequences = await transport.publish([said(n) for n in (3, 20, 4, 21, 3)])

    assert sequences == [4, 11, 5, 12, 4]
    assert [e.id for e in await everything(transport)][10:] == ["uid-20/1", "uid-21/1"]


async def test_two_watchers_of_one_change_are_one_event(transport):
    await transport.publish([said(1)])

    again = said(1, source="other watch", time_us=said(1).time_us + 5)

    assert await transport.publish([again]) == [1]


@pytest.mark.parametrize("beside", [[], [2], [2, 3]])
async def test_a_known_id_with_another_body_is_refused(transport, beside):
    """docs/wrong-input.md E4, another body: whoever says it is stopped, and what is stored stays.

    E9, a fork: two ingesters of one source say different things of one version, and the later one is stopped.
    """
    await transport.publish([said(1), said(2)])

    with pytest.raises(DuplicateIdError):
        await transport.publish([said(1, body=b"{}"), *map(said, beside)])

    stored = await everything(transport)
    assert stored[0].body == said(1).body
    assert [e.id for e in stored].count(said(1).id) == 1


async def test_one_call_cannot_give_one_id_two_bodies(transport):
    """docs/wrong-input.md E4 within one call."""
    with pytest.raises(DuplicateIdError):
        await transport.publish([said(1), said(1, body=b"{}")])

    assert (await transport.head()).last_sequence == 0


async def test_a_newer_version_of_a_stored_event_is_the_stored_event(transport):
    await transport.publish([said(1)])

    assert await transport.publish([said(1, version=2, body=b'{"new":1}')]) == [1]


async def test_an_expectation_that_holds_stores_all(transport):
    expect = Expectation("bursar.c1.pod.observed.*", 0)

    assert await transport.publish([said(1), said(2)], expect=expect) == [1, 2]


async def test_a_stale_expectation_stores_nothing(transport):
    await transport.publish([said(1), said(2)])

    for events in ([said(3)], [said(3), said(4)]):
        with pytest.raises(WrongExpectationError) as refused:
            await transport.publish(events, expect=Expectation("bursar.c1.pod.observed.*", 1))
        assert 2 == refused.value.last_sequence

    assert (await transport.head()).last_sequence == 2


async def test_an_expectation_looks_only_at_its_subject(transport):
    await transport.publish([said(1), said(2)])

    expect = Expectation("bursar.c1.pod.observed.pod-1", 1)

    assert await transport.publish([said(51)], expect=expect) == [3]


async def test_publishing_again_with_its_old_expectation_answers_as_the_first_time(transport):
    expect = Expectation("bursar.c1.pod.observed.*", 0)
    first = await transport.publish([said(1), said(2)], expect=expect)

    assert await transport.publish([said(1), said(2)], expect=expect) == first


async def test_of_many_writers_with_one_expectation_one_wins(transport):
    expect = Expectation("bursar.c1.pod.observed.*", 0)
    tries = [transport.publish([said(n), said(n + 100)], expect=expect) for n in range(10)]

    results = await asyncio.gather(*tries, return_exceptions=True)

    lost = [r for r in results if isinstance(r, WrongExpectationError)]
    assert (len(lost), (await transport.head()).last_sequence) == (9, 2)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"id": ""}, id="no id"),
        pytest.param({"source": "a\r\nNats-Rollup: all"}, id="a header smuggled in"),
        pytest.param({"key": "x" * 257}, id="key too long"),
        pytest.param({"type": ""}, id="no type"),
    ],
)
async def test_what_is_no_event_is_refused_before_anything_is_stored(transport, changes):
    with pytest.raises(EnvelopeError):
        await transport.publish([said(1), said(2, **changes)])

    assert (await transport.head()).last_sequence == 0


@pytest.mark.parametrize("after", [0, 1, 7, 19, 20])
async def test_reading_begins_behind_a_sequence(transport, after):
    await transport.publish([said(n) for n in range(20)])

    assert [e.sequence for e in await everything(transport, after)] == list(range(after + 1, 21))


@pytest.mark.parametrize("batch", [1, 7, 1000])
async def test_no_list_is_longer_than_asked_for_and_none_is_empty(transport, batch):
    await transport.publish([said(n) for n in range(60)])

    sizes = [len(part) async for part in transport.read(after=0, batch=batch, live=False)]

    assert sum(sizes) == 60
    assert 1 <= min(sizes) and max(sizes) <= batch


async def test_a_live_read_wakes_up_for_what_is_said_later(transport):
    reading = asyncio.create_task(take(transport, 12))
    for number in range(12):
        await asyncio.sleep(0.01)
        await transport.publish([said(number)])

    assert [e.sequence for e in await reading] == list(range(1, 13))


async def test_a_finite_read_ends_at_the_head_it_began_with(transport):
    await transport.publish([said(n) for n in range(10)])
    seen = []
    async for part in transport.read(after=0, batch=5, live=False):
        seen += part
        await transport.publish([said(100 + len(seen))])

    assert [e.sequence for e in seen] == list(range(1, 11))


async def test_several_readers_do_not_disturb_each_other(transport):
    await transport.publish([said(n) for n in range(100)])

    reads = await asyncio.gather(*(take(transport, 100 - a, a) for a in (0, 30, 60, 90)))

    assert [r[0].sequence for r in reads] == [1, 31, 61, 91]
    assert {r[-1].sequence for r in reads} == {100}


async def test_a_missing_sequence_is_never_passed_over(bus):
    """docs/wrong-input.md E7: a gap."""
    await bus.transport.publish([said(n) for n in range(20)])
    await bus.lose(10)
    seen = []

    with pytest.raises(HistoryDivergedError):
        async for part in bus.transport.read(after=0, live=False):
            seen += part

    assert [e.sequence for e in seen] == list(range(1, len(seen) + 1))
    assert len(seen) < 10


async def test_reading_behind_the_end_is_a_history_that_went_back(transport):
    """docs/wrong-input.md E7: a regression."""
    await transport.publish([said(1)])

    with pytest.raises(HistoryDivergedError):
        await everything(transport, after=2)


async def test_a_stream_that_is_gone_stops_a_live_reader(bus, transport):
    """docs/wrong-input.md E14: the stream is deleted."""
    await bus.transport.publish([said(n) for n in range(5)])
    async with asyncio.timeout(20):
        with pytest.raises(HistoryDivergedError):
            async for _ in transport.read(after=0):
                await bus.forget_all()


async def test_head_and_at_tell_what_is_stored(transport):
    empty = await transport.head()
    await transport.publish([said(1), said(2)])
    head = await transport.head()

    assert (empty.first_sequence, empty.last_sequence) == (1, 0)
    assert (head.stream, head.first_sequence, head.last_sequence) == ("HISTORY", 1, 2)
    assert (head.created_us, await transport.at(3), await transport.at(0)) == (
        empty.created_us,
        None,
        None,
    )
    assert await transport.at(2) == msgspec.structs.replace(said(2), sequence=2)


async def test_five_thousand_events_with_mixed_duplicates(transport):
    chance = random.Random(7)
    expected = {}
    number = 0
    while number < 5000:
        size = chance.choice((1, 3, 40, 700, 1300))
        fresh = [said(n) for n in range(number, min(number + size, 5000))]
        number += len(fresh)
        old = chance.choices(list(expected.values()), k=min(len(expected), chance.randrange(30)))
        mixed = fresh + old
        chance.shuffle(mixed)
        for event, sequence in zip(mixed, await transport.publish(mixed), strict=True):
            assert event.id not in expected or expected[event.id].sequence == sequence
            expected[event.id] = msgspec.structs.replace(event, sequence=sequence)

    read = await everything(transport)

    assert read == sorted(expected.values(), key=lambda e: e.sequence)
    assert [e.sequence for e in read] == list(range(1, 5001))


async def test_concurrent_publishers_lose_and_double_nothing(transport):
    parts = [[said(n) for n in range(a, a + 300)] for a in range(0, 3000, 150)]

    answers = await asyncio.gather(*map(transport.publish, parts))

    read = {e.sequence: e.id for e in await everything(transport)}
    assert len(read) == len(set(read.values())) == 3150
    for part, sequences in zip(parts, answers, strict=True):
        assert [read[s] for s in sequences] == [e.id for e in part]


async def test_a_cancelled_read_leaves_no_task_behind(transport):
    await transport.publish([said(1)])
    before = asyncio.all_tasks()

    reading = asyncio.create_task(take(transport, 1000))
    await asyncio.sleep(0.1)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading

    assert asyncio.all_tasks() == before


async def test_closing_twice_is_fine(transport):
    await transport.close()
    await transport.close()
