"""Rows E8, E10, E12 and E13 of the catalogue on a real server: messages that must not be sent, or must not do what they ask."""

import asyncio
from contextlib import aclosing

import msgspec
import pytest

from bus import embedded
from bus.clock import SECOND_US, SystemClock
from bus.embedded import EmbeddedServer
from bus.envelope import MALFORMED, Event, digest
from bus.errors import EnvelopeError
from bus.jetstream import JetStream
from bus.jetstream.connection import Connection
from bus.jetstream.reader import MAX_REQUEST, REQUEST_BYTES
from bus.jetstream.wire import AHEAD_US
from bus.streams import history
from bus.transport import Expectation

pytestmark = pytest.mark.nats

YEAR_US = 365 * 86_400 * SECOND_US
NOW_US = SystemClock().now_us()


@pytest.fixture
async def server(tmp_path, monkeypatch):
    # Its own looks at its health are messages, too.
    monkeypatch.setattr(embedded, "_LOOKS", 1_000_000)
    async with EmbeddedServer(tmp_path) as server:
        yield server


@pytest.fixture
async def bus(server):
    transport = await JetStream.connect(server.url, history(), credentials=server.credentials)
    yield transport
    await transport.close()


def said(number, **changes):
    event = Event(
        "c1",
        "pod.observed",
        f"pod-{number % 50}",
        f"uid-{number}/1",
        "watch",
        1_700_000_000_000_000 + number,
        b'{"n":%d}' % number,
    )
    return msgspec.structs.replace(event, **changes)


async def everything(bus):
    return [event async for part in bus.read(after=0, live=False) for event in part]


# --- E8: refused before it is sent -----------------------------------------------------------------

TOO_MUCH = {
    "a payload of 1 MB and 1 byte": ({"body": b"x" * 1_048_577}, "bytes=1048"),
    "a payload above the stream's limit": ({"body": b"x" * 70_000}, "id='uid-"),
    "a subject of 5 KB by its cluster": ({"cluster": "c" * 5_000}, "cluster='ccc"),
    "a subject of 5 KB by its type": ({"type": "pod." + "o" * 5_000}, "type='pod.ooo"),
    "10,000 headers in an attribute": ({"source": "\r\n".join(["a: b"] * 10_000)}, "attribute='source'"),
    "10,000 headers in a short attribute": ({"key": "k\r\na: b"}, "attribute='key'"),
    "an id of 1 MB": ({"id": "i" * 1_048_577}, "attribute='id'"),
}  # fmt: skip


@pytest.mark.parametrize("count", [1, 3, 2_500], ids=["single", "window", "windows"])
@pytest.mark.parametrize(("changes", "named"), TOO_MUCH.values(), ids=list(TOO_MUCH))
async def test_e8_what_is_too_much_is_refused_by_name_and_nothing_is_sent(
    bus, monkeypatch, changes, named, count
):
    events = [*(said(n) for n in range(count - 1)), said(count, **changes)]
    client = bus._connection._client
    written, before = [], client.stats["out_msgs"]
    monkeypatch.setattr(client, "write", written.append)

    with pytest.raises(EnvelopeError) as refused:
        await bus.publish(events)

    assert (written, client.stats["out_msgs"]) == ([], before)
    assert named in str(refused.value)
    assert len(str(refused.value)) < 300
    assert bus.connected


async def test_e8_a_key_of_any_length_makes_a_short_subject(bus):
    event = said(1, key="k" * 256)
    await bus.publish([event])

    assert len(event.subject) < 80
    assert [found.key for found in await everything(bus)] == ["k" * 256]


@pytest.mark.parametrize(
    ("subject", "sequence"),
    [
        ("bursar." + "x" * 5_000, 0),
        ("bursar.>\r\nNats-Rollup: all", 0),
        ("bursar.a b", 0),
        ("", 0),
        ("bursar.>", -1),
    ],
    ids=["of 5 KB", "with a header smuggled in", "with a blank", "empty", "before the beginning"],
)
def test_e8_an_expectation_that_is_no_header_cannot_be_made(subject, sequence):
    with pytest.raises(EnvelopeError, match="expectation"):
        Expectation(subject, sequence)


# --- E10: stamps of another time -------------------------------------------------------------------


@pytest.mark.parametrize(
    "ahead_us", [YEAR_US, 9_000 * 365 * 86_400 * SECOND_US // 10 * 8], ids=["a year", "for ever"]
)
async def test_e10_a_stamp_in_the_future_is_bounded_by_when_it_was_stored(bus, ahead_us):
    await bus.publish([said(1), said(2, time_us=NOW_US + ahead_us), said(3)])
    found = await everything(bus)

    assert [event.id for event in found] == ["uid-1/1", "uid-2/1", "uid-3/1"]
    assert NOW_US <= found[1].time_us - AHEAD_US <= SystemClock().now_us()
    assert [found[0].time_us, found[2].time_us] == [said(1).time_us, said(3).time_us]
    # Whoever reads it, and however, reads the same event: checkpoints compare digests.
    assert digest(await bus.at(2)) == digest(found[1])
    assert await everything(bus) == found


async def test_e10_years_ago_and_within_the_skew_of_clocks_stay_as_said_in_the_streams_order(bus):
    stamps = [NOW_US, NOW_US - 30 * YEAR_US, NOW_US + AHEAD_US // 2, 0, NOW_US - YEAR_US]
    await bus.publish([said(n, time_us=stamp) for n, stamp in enumerate(stamps)])
    found = await everything(bus)

    assert [event.time_us for event in found] == stamps
    assert [event.sequence for event in found] == [1, 2, 3, 4, 5]


# --- E12: a backlog --------------------------------------------------------------------------------

#: Thirty times what a reader may hold, and a few seconds to say: a list that grew with the backlog would show at this
#: size as at 10^6, since what a reader holds is counted in messages and bytes and not in time.
BACKLOG = 60_000

#: Messages a second of a calm source, and how many times as many come in a burst (E12).
CALM, BURST = 500, 20


class Watched:
    """A slow reader of `count` events, and the most messages and bytes that ever waited for it."""

    def __init__(self, bus, count):
        self.sequences, self.held, self.held_bytes = [], 0, 0
        self._reading = bus.read(after=0, batch=MAX_REQUEST)
        self._count = count

    async def run(self):
        """Read on until all is seen; everything that the server has leave to send arrives between two batches."""
        async with asyncio.timeout(60), aclosing(self._reading) as parts:
            async for part in parts:
                self.sequences += [event.sequence for event in part]
                await asyncio.sleep(0.005)
                waiting = self._reading.ag_frame.f_locals["self"]._raw
                self.held = max(self.held, len(waiting))
                self.held_bytes = max(self.held_bytes, sum(len(raw[2]) for raw in waiting))
                if len(self.sequences) >= self._count:
                    break
        assert self.sequences == list(range(1, self._count + 1))


async def test_e12_a_backlog_is_read_with_bounded_memory(bus):
    await bus.publish([said(n, body=b'"%b"' % (b"x" * 500)) for n in range(BACKLOG)])
    watched = Watched(bus, BACKLOG)
    await watched.run()

    assert 0 < watched.held <= 2 * MAX_REQUEST


async def test_e12_large_messages_of_a_backlog_are_bounded_in_bytes(bus):
    """The largest messages there are: two requests of 8 MiB, and not 2,000 messages of 64 KiB."""
    await bus.publish([said(n, body=b'"%b"' % (b"x" * 65_000)) for n in range(2_000)])
    watched = Watched(bus, 2_000)
    await watched.run()

    assert 0 < watched.held_bytes <= 2 * REQUEST_BYTES


async def test_e12_a_burst_of_twenty_times_the_usual_rate_is_bounded_alike(bus):
    events = [said(n) for n in range(CALM + CALM * BURST)]
    watched = Watched(bus, len(events))
    reading = asyncio.create_task(watched.run())
    await bus.publish(events[:CALM])
    starts = range(CALM, len(events), CALM)
    await asyncio.gather(*(bus.publish(events[start : start + CALM]) for start in starts))
    await reading

    assert 0 < watched.held <= 2 * MAX_REQUEST


# --- E13: headers that would change what is stored ---------------------------------------------------

COMMANDS = {
    "a rollup of the subject": ({"Nats-Rollup": "sub"}, 10111),
    "a rollup of the stream": ({"Nats-Rollup": "all"}, 10111),
    "a time to live": ({"Nats-TTL": "1s"}, 10166),
    "a schedule": ({"Nats-Schedule": "@at 2030-01-01T00:00:00Z", "Nats-Schedule-Target": "bursar.c1.a.b.c"}, 10188),
    "a counter": ({"Nats-Incr": "1"}, 10168),
    "an expected sequence": ({"Nats-Expected-Last-Sequence": "7"}, 10071),
    "an expected sequence of a subject": ({"Nats-Expected-Last-Subject-Sequence": "7"}, 10071),
    "an expected stream": ({"Nats-Expected-Stream": "OTHER"}, 10060),
}  # fmt: skip


@pytest.fixture
async def other(server):
    """Another writer with the rights of every part of Bursar, who writes headers of its own."""
    connection = await Connection.open(server.url, credentials=server.credentials)
    yield connection
    await connection.close()


@pytest.mark.parametrize(("headers", "code"), COMMANDS.values(), ids=list(COMMANDS))
async def test_e13_a_header_that_would_change_the_history_is_refused(bus, other, headers, code):
    await bus.publish([said(n) for n in range(100)])
    before = await everything(bus)
    subject = said(1).subject

    answer = await other._client.request(subject, b"{}", timeout=5.0, headers=headers)

    assert msgspec.json.decode(answer.data)["error"]["err_code"] == code
    assert await everything(bus) == before


async def test_e13_no_header_of_a_batch_changes_the_history_either(bus, other):
    await bus.publish([said(n) for n in range(100)])
    before = await everything(bus)
    batch = {"Nats-Batch-Id": "b", "Nats-Batch-Sequence": "1", "Nats-Batch-Commit": "1"}

    for headers, _ in COMMANDS.values():
        answer = await other._client.request(
            said(1).subject, b"{}", timeout=5.0, headers=batch | headers
        )
        assert "error" in msgspec.json.decode(answer.data)

    assert await everything(bus) == before


async def test_e13_an_expectation_that_holds_stores_one_message_and_touches_no_other(bus, other):
    await bus.publish([said(n) for n in range(100)])
    before = await everything(bus)

    headers = {"Nats-Expected-Last-Sequence": "100"}
    await other._client.request(said(1).subject, b"{}", timeout=5.0, headers=headers)
    after = await everything(bus)

    assert after[:-1] == before
    assert (after[-1].sequence, after[-1].type) == (101, "malformed")


# --- what is no event ------------------------------------------------------------------------------

ODD = {
    "no headers at all": (b"bursar.c1.pod.observed.k", b""),
    "a header that is no UTF-8": (b"bursar.c1.pod.observed.k", b"NATS/1.0\r\nce-id: \xff\r\n\r\n"),
    "NUL in the id": (b"bursar.c1.pod.observed.k", b"NATS/1.0\r\nce-id: a\x00b\r\n\r\n"),
    "a folded header": (b"bursar.c1.pod.observed.k", b"NATS/1.0\r\nce-id: a\r\n b\r\nce-id: c\r\n\r\n"),
    "a block without an end": (b"bursar.c1.pod.observed.k", b"NATS/1.0\r\nce-id: a"),
    "a block that is none": (b"bursar.c1.pod.observed.k", b"garbage"),
    "a status of the server": (b"bursar.c1.pod.observed.k", b"NATS/1.0 404 No Messages\r\n\r\n"),
    "the server's own header": (b"bursar.c1.pod.observed.k", b"NATS/1.0\r\nNats-Sequence: 7\r\nStatus: 404\r\n\r\n"),
    "a subject that is no UTF-8": (b"bursar.\xe2\x82.pod.observed.k", b"NATS/1.0\r\nce-id: a\r\n\r\n"),
    "a subject with control characters": (b"bursar.c\x01.pod.observed.\x7f", b""),
}  # fmt: skip


@pytest.mark.parametrize(("subject", "headers"), ODD.values(), ids=list(ODD))
async def test_a_message_that_is_no_event_is_one_and_the_same_to_every_reader(
    bus, other, subject, headers
):
    """A ledger's start compares the event at its checkpoint with the one it read: they differed for these messages."""
    command = b"HPUB %b %d %d\r\n" % (subject, len(headers), len(headers) + 2)
    if not headers:
        command = b"PUB %b 2\r\n" % subject
    await other.send(command + headers + b"{}\r\n")
    async with asyncio.timeout(10):
        while (await bus.head()).last_sequence < 1:
            await asyncio.sleep(0.01)
    await bus.publish([said(1)])
    first, _ = await everything(bus)

    assert (first.type, first.body) == (MALFORMED, b"{}")
    assert await bus.at(1) == first
