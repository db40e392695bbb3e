"""The JetStream adapter on a real server: its guard, and what is kept when the server is killed or frozen."""

import asyncio
import os
import random
import signal

import msgspec
import pytest

from bus.embedded import EmbeddedServer
from bus.errors import (
    BusUnavailableError,
    DuplicateIdError,
    EnvelopeError,
    HistoryDivergedError,
    PublishUnknownError,
    UnsafeBusError,
    WrongExpectationError,
)
from bus.jetstream import GuardLine, JetStream, Safety, guard_lines, require_safe
from bus.jetstream.adapter import _ensure, configuration
from bus.jetstream.connection import ApiError, Connection
from bus.jetstream.publisher import windows
from bus.streams import Stream, history
from bus.transport import Expectation, Transport
from tests.bus.kube.observations import publish_on, read_until_last, said
from tests.cluster.pausing import pause

STREAM = history()
INFO = {"config": configuration(STREAM), "cluster": {"leader": "a"}}
SERVER = {"version": "2.15.1", "server_id": "A"}
VARZ = {"server_id": "A", "jetstream": {"config": {"sync_always": True}}}


@pytest.fixture
async def server(tmp_path):
    async with EmbeddedServer(tmp_path) as server:
        yield server


@pytest.fixture
async def bus(server):
    transport = await connect(server)
    yield transport
    await transport.close()


@pytest.fixture
async def recovery(server):
    """A connection that may edit streams, as a careless administrator's."""
    connection = await Connection.open(
        server.url, credentials=("recovery", server.address.recovery_password)
    )
    yield connection
    await connection.close()


async def connect(server, **options) -> Transport:
    return await JetStream.connect(server.url, STREAM, credentials=server.credentials, **options)


def config(**changes):
    return {"info": {**INFO, "config": {**INFO["config"], **changes}}}


def unsafe(lines):
    return [line.property for line in lines if line.state is Safety.UNSAFE]


def guarded(stream=STREAM, info=INFO, server=SERVER, varz=(VARZ,)):
    return guard_lines(stream, info, server, varz)


# --- the guard -----------------------------------------------------------------------------------


def test_the_stream_as_we_make_it_is_safe():
    lines = guarded()

    require_safe(lines)
    assert {line.state for line in lines} == {Safety.OK}


@pytest.mark.parametrize(
    ("found", "property"),
    [
        ({"varz": [{"server_id": "A", "jetstream": {"config": {}}}]}, "sync_interval"),
        ({"varz": [VARZ, {"server_id": "B", "jetstream": {}}]}, "sync_interval"),
        (config(persist_mode="async"), "persist_mode"),
        (config(discard="old"), "discard"),
        (config(max_age=1), "max_age"),
        (config(max_age=86_399 * 10**9), "max_age"),
        (config(max_msgs=2), "max_msgs"),
        (config(max_bytes=1 << 30), "max_bytes"),
        (config(max_msgs_per_subject=1), "max_msgs_per_subject"),
        (config(storage="memory"), "storage"),
        (config(retention="workqueue"), "retention"),
        (config(duplicate_window=60 * 10**9), "duplicate_window"),
        (config(deny_delete=False), "deny_delete"),
        (config(deny_purge=False), "deny_purge"),
        (config(allow_rollup_hdrs=True), "allow_rollup_hdrs"),
        (config(allow_msg_ttl=True), "allow_msg_ttl"),
        (config(no_ack=True), "no_ack"),
        (config(sealed=True), "sealed"),
        (config(allow_atomic=False), "allow_atomic"),
        (config(mirror={"name": "OTHER"}), "mirror"),
        (config(sources=[{"name": "OTHER"}]), "sources"),
        (config(subject_transform={"src": "a", "dest": "b"}), "subject_transform"),
        (config(subjects=["bursar.c1.>"]), "subjects"),
        (config(subjects=["bursar.*.>", "foreign.>"]), "subjects"),
        ({"stream": history(replicas=3), "varz": ()}, "num_replicas"),
        (
            {"stream": history(replicas=3), **config(num_replicas=3, compression="s2")},
            "compression",
        ),
        ({"server": {"version": "2.12.9"}}, "version"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_way_of_losing_events_is_refused_by_name(found, property):
    lines = guarded(**found)

    with pytest.raises(UnsafeBusError) as refused:
        require_safe(lines)
    assert unsafe(lines) == [refused.value.property] == [property]
    assert refused.value.code == "bus-" + property.replace("_", "-")


@pytest.mark.parametrize(
    ("found", "property", "state"),
    [
        ({"varz": ()}, "sync_interval", Safety.UNKNOWN),
        ({"varz": [None]}, "sync_interval", Safety.UNKNOWN),
        ({"varz": [VARZ, VARZ, None]}, "sync_interval", Safety.UNKNOWN),
        ({"server": {}}, "version", Safety.UNKNOWN),
        (config(duplicate_window=300 * 10**9), "duplicate_window", Safety.WEAK),
        (config(allow_direct=False), "allow_direct", Safety.WEAK),
        (config(max_msg_size=-1), "max_msg_size", Safety.WEAK),
        (config(compression="none"), "compression", Safety.WEAK),
        (config(max_age=86_400 * 10**9), "max_age", Safety.WEAK),
        (
            {"info": {**INFO, "cluster": {"replicas": [{"name": "b", "current": False}]}}},
            "num_replicas",
            Safety.WEAK,
        ),
    ],
)
def test_what_is_weak_or_unknown_is_shown_and_not_refused(found, property, state):
    lines = guarded(**found)

    require_safe(lines)
    assert [(line.property, line.state) for line in lines if line.state is not Safety.OK] == [
        (property, state)
    ]


def test_codes_are_stable_and_unique():
    codes = [line.code for line in guarded()]

    assert len(set(codes)) == len(codes)
    assert (
        GuardLine("sync_interval", Safety.OK, "always", "always", "bus-sync-interval") in guarded()
    )


@pytest.mark.nats
@pytest.mark.parametrize(
    ("change", "property"),
    [
        ({"persist_mode": "async", "allow_atomic": False, "allow_batched": False}, "persist_mode"),
        ({"discard": "old"}, "discard"),
        ({"max_age": 3600 * 10**9}, "max_age"),
        ({"max_msgs": 2}, "max_msgs"),
        ({"storage": "memory"}, "storage"),
        ({"duplicate_window": 10**9}, "duplicate_window"),
        ({"deny_delete": False}, "deny_delete"),
        ({"allow_msg_ttl": True}, "allow_msg_ttl"),
    ],
)
async def test_the_guard_sees_a_badly_made_stream(server, recovery, change, property):
    made = msgspec.json.encode(configuration(STREAM) | change)
    await recovery.ask("STREAM.CREATE.HISTORY", made)
    bus = await connect(server)

    lines = await bus.guard(server.monitor_url)
    await bus.close()

    assert property in unsafe(lines)


@pytest.mark.nats
async def test_the_guard_sees_a_stream_that_is_cut_later(server, bus, recovery):
    """docs/wrong-input.md E14: the stream is edited to max_msgs=2."""
    await bus.publish([said(n) for n in range(10)])
    before = unsafe(await bus.guard(server.monitor_url))
    changed = configuration(STREAM) | {"max_msgs": 2}
    await recovery.ask("STREAM.UPDATE.HISTORY", msgspec.json.encode(changed))

    assert (before, unsafe(await bus.guard(server.monitor_url))) == ([], ["max_msgs"])


@pytest.mark.nats
async def test_without_a_monitoring_port_the_sync_interval_is_unknown(bus):
    for urls in ((), ("http://127.0.0.1:1",)):
        found = {line.property: line.state for line in await bus.guard(*urls)}
        assert found["sync_interval"] is Safety.UNKNOWN


# --- publishing ----------------------------------------------------------------------------------


def test_windows_are_bounded_in_number_and_bytes():
    many = [said(n, body=b"") for n in range(2500)]
    large = [said(n, body=b"x" * 3_000_000) for n in range(3)]

    assert [len(part) for part in windows(many)] == [1000, 1000, 500]
    assert [len(part) for part in windows(large)] == [1, 1, 1]
    assert [event for part in windows(many) for event in part] == many


@pytest.mark.nats
@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"body": b"x" * 70_000}, id="too large"),
        pytest.param({"cluster": "a b"}, id="a blank in the subject"),
        pytest.param({"cluster": "*"}, id="a wildcard in the subject"),
        pytest.param({"type": "pod.a.b"}, id="a type of three tokens"),
        pytest.param({"id": "\ud800"}, id="no Unicode"),
    ],
)
async def test_what_the_server_could_not_take_is_refused_before_it_is_sent(bus, changes):
    with pytest.raises(EnvelopeError):
        await bus.publish([said(1), said(2, **changes)])

    assert (await bus.head()).last_sequence == 0
    assert bus.connected


@pytest.mark.nats
async def test_many_of_the_largest_events_pass(bus):
    body = b'"' + b"x" * (64 * 1024 - 2) + b'"'

    sequences = await bus.publish([said(n, body=body) for n in range(400)])
    read = [e async for part in bus.read(after=0, live=False) for e in part]

    assert sequences == [e.sequence for e in read] == list(range(1, 401))
    assert {e.body for e in read} == {body}


@pytest.mark.nats
async def test_an_expectation_over_more_than_a_window_is_a_programming_error(bus):
    with pytest.raises(ValueError, match="1000"):
        await bus.publish([said(n) for n in range(1001)], expect=Expectation("bursar.>", 0))


@pytest.mark.nats
async def test_an_id_used_before_us_for_something_else_is_found_out(bus):
    """docs/wrong-input.md E5: a low-trust writer takes the id of an event that it wants to suppress."""
    await bus.publish([said(7, type="pod.vanished")])

    with pytest.raises(DuplicateIdError):
        await bus.publish([said(n) for n in range(20)])

    assert (await bus.at(1)).type == "pod.vanished"


@pytest.mark.nats
async def test_a_faster_writer_of_the_same_id_is_a_lost_race_and_no_fault(bus):
    expect = Expectation("bursar.c1.pod.observed.pod-1", 0)
    await bus.publish([said(1)], expect=expect)

    with pytest.raises(WrongExpectationError):
        await bus.publish([said(1, body=b'"ours"')], expect=expect)


@pytest.mark.nats
async def test_a_stream_that_is_not_there_is_an_error(server):
    with pytest.raises(BusUnavailableError, match="not found"):
        await connect(server, create=False)


@pytest.mark.nats
async def test_an_address_where_nobody_listens_is_an_error():
    with pytest.raises(BusUnavailableError, match=r"127\.0\.0\.1") as failed:
        await JetStream.connect(
            "nats://me:secret@127.0.0.1:1", Stream("S", ("s.>",)), connect_seconds=0.3
        )

    assert "secret" not in str(failed.value)


# --- a server that is killed or frozen -----------------------------------------------------------


@pytest.mark.nats
async def test_killing_the_server_loses_and_doubles_nothing(server, bus):
    acked, chance, enough = {}, random.Random(3), asyncio.Event()
    writing = [asyncio.create_task(publish_on(bus, n, acked, enough)) for n in (0, 1)]
    reading = [asyncio.create_task(read_until_last(bus)) for _ in range(2)]
    for _ in range(5):
        await asyncio.sleep(chance.uniform(0.05, 0.3))
        os.kill(server.pid, signal.SIGKILL)
        await asyncio.sleep(0.8)
    enough.set()
    async with asyncio.timeout(60):
        await asyncio.gather(*writing)
        acked["last"] = (await bus.publish([said(0, id="last")]))[0]
        reads = await asyncio.gather(*reading)

    assert server.restarts == 5
    for seen in reads:
        assert [e.sequence for e in seen] == list(range(1, len(acked) + 1))
        assert {e.id: e.sequence for e in seen} == acked


@pytest.mark.nats
async def test_what_got_no_answer_is_published_again_and_stored_once(server):
    bus = await connect(server, ack_seconds=0.3, attempts=2)
    events = [said(n) for n in range(1500)]
    pause(server.pid)
    try:
        with pytest.raises(PublishUnknownError):
            await bus.publish(events)
    finally:
        os.kill(server.pid, signal.SIGCONT)

    patient = await connect(server)
    sequences = await patient.publish(events)
    head = await patient.head()
    await patient.close()
    await bus.close()

    assert sequences == list(range(1, 1501))
    assert head.last_sequence == 1500


@pytest.mark.nats
async def test_the_door_itself_tries_again_with_the_same_ids(server):
    bus = await connect(server, ack_seconds=0.5, attempts=20)
    pause(server.pid)
    publishing = asyncio.create_task(bus.publish([said(n) for n in range(100)]))
    await asyncio.sleep(1)
    os.kill(server.pid, signal.SIGCONT)

    assert await publishing == list(range(1, 101))
    assert (await bus.head()).last_sequence == 100
    await bus.close()


@pytest.mark.nats
async def test_a_frozen_server_is_noticed_within_ten_seconds(server, bus):
    pause(server.pid)
    try:
        async with asyncio.timeout(10):
            while bus.connected:
                await asyncio.sleep(0.1)
    finally:
        os.kill(server.pid, signal.SIGCONT)
    async with asyncio.timeout(10):
        while not bus.connected:
            await asyncio.sleep(0.05)


@pytest.mark.nats
async def test_without_a_server_a_publish_says_that_nothing_was_said(tmp_path):
    server = EmbeddedServer(tmp_path)
    await server.start()
    bus = await connect(server, ack_seconds=0.2, attempts=2)
    await server.stop()
    async with asyncio.timeout(5):
        while bus.connected:
            await asyncio.sleep(0.02)

    with pytest.raises(BusUnavailableError):
        await bus.publish([said(1)])
    await bus.close()


# --- reading -------------------------------------------------------------------------------------


@pytest.mark.nats
async def test_a_deleted_consumer_is_made_again_without_loss(bus, recovery):
    await bus.publish([said(n) for n in range(50)])
    seen = []
    async with asyncio.timeout(20):
        async for part in bus.read(after=0, batch=10):
            seen += part
            if len(seen) == 20:
                names = await recovery.ask("CONSUMER.NAMES.HISTORY")
                for name in msgspec.json.decode(names)["consumers"]:
                    await recovery.ask(f"CONSUMER.DELETE.HISTORY.{name}")
                await bus.publish([said(n) for n in range(50, 60)])
            if len(seen) >= 60:
                break

    assert [e.sequence for e in seen] == list(range(1, 61))


@pytest.mark.nats
async def test_a_lost_tail_that_grew_again_is_found_by_its_content(tmp_path):
    """Reliability fact 3: sequences are used again after a lost tail; only the content tells."""
    server = EmbeddedServer(tmp_path)
    await server.start()
    bus = await connect(server)
    await bus.publish([said(n) for n in range(20)])
    reading = bus.read(after=0)
    first = await anext(reading)
    await server._end()
    await lose_tail(server.folder / "store")
    async with asyncio.timeout(20):
        await bus.publish([said(n) for n in range(100, 130)])
        with pytest.raises(HistoryDivergedError, match="another event stands here"):
            await anext(reading)
    await bus.close()
    await server.stop()

    assert len(first) == 20


async def lose_tail(store):
    """Cut the last block of the stream, as a machine without flushes does."""
    block = max(store.rglob("*.blk"), key=lambda path: path.stat().st_mtime)
    with block.open("r+b") as file:
        file.truncate(block.stat().st_size - 5000)
    for index in store.rglob("index.db"):
        index.unlink()


@pytest.mark.nats
async def test_a_slow_reader_holds_at_most_two_batches(bus):
    await bus.publish([said(n) for n in range(5000)])
    reading = bus.read(after=0, batch=100)
    seen = await anext(reading)
    await asyncio.sleep(0.3)
    held = len(reading.ag_frame.f_locals["self"]._raw)
    async for part in reading:
        seen += part
        if len(seen) >= 5000:
            break
    await reading.aclose()

    assert held <= 200
    assert [e.sequence for e in seen] == list(range(1, 5001))


@pytest.mark.nats
async def test_a_reader_that_paused_longer_than_its_consumer_lives_goes_on(bus, monkeypatch):
    monkeypatch.setattr("bus.jetstream.reader.EXPIRES_SECONDS", 5)
    await bus.publish([said(n) for n in range(300)])
    reading = bus.read(after=0, batch=100)
    seen = await anext(reading)
    await asyncio.sleep(7)
    async with asyncio.timeout(20):
        while len(seen) < 300:
            seen += await anext(reading)
    await reading.aclose()

    assert [e.sequence for e in seen] == list(range(1, 301))


@pytest.mark.nats
@pytest.mark.parametrize("batch", [1, 999, 5000])
async def test_a_batch_may_be_larger_than_one_pull_request(bus, batch):
    await bus.publish([said(n) for n in range(12_000)])
    reading = bus.read(after=0, batch=batch, linger_seconds=5, live=False)
    parts = [len(part) async for part in reading]

    assert sum(parts) == 12_000
    assert max(parts) == batch


@pytest.mark.nats
async def test_closing_the_door_ends_a_live_reader(bus):
    reading = asyncio.create_task(read_until_last(bus))
    await asyncio.sleep(0.1)
    await bus.close()

    async with asyncio.timeout(5):
        with pytest.raises(BusUnavailableError, match="closed"):
            await reading


@pytest.mark.nats
async def test_a_dropped_reader_leaves_no_consumer_behind(bus, recovery):
    await bus.publish([said(1)])
    reading = bus.read(after=0)
    await anext(reading)
    await reading.aclose()
    await bus.head()

    names = msgspec.json.decode(await recovery.ask("CONSUMER.NAMES.HISTORY"))["consumers"]
    assert not names


class Strangers:
    """Servers of a cluster that has just begun: so often they know too few of each other to keep a stream."""

    def __init__(self, times, code=10005):
        self.left, self.code, self.made = times, code, []

    async def ask(self, subject, body=b""):
        if subject.startswith("STREAM.INFO"):
            raise ApiError(10059, "stream not found")
        if self.left:
            self.left -= 1
            raise ApiError(self.code, "no suitable peers for placement")
        self.made.append(subject)


@pytest.mark.parametrize("code", [10005, 10008])
async def test_a_cluster_of_servers_that_has_just_begun_is_given_time_to_make_the_stream(code):
    servers = Strangers(3, code)
    await _ensure(servers, STREAM, create=True)

    assert servers.made == ["STREAM.CREATE.HISTORY"]


async def test_servers_that_never_meet_are_named_and_any_other_refusal_at_once(monkeypatch):
    monkeypatch.setattr("bus.jetstream.adapter.MEET_SECONDS", 0.2)
    for servers in (Strangers(10**6), Strangers(1, 10074)):
        with pytest.raises(BusUnavailableError, match=f"{servers.code}.*HISTORY"):
            await _ensure(servers, STREAM, create=True)
    assert servers.left == 0
