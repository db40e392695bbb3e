"""When the beginning of a stream may be dropped: a server in words alone, whose stamps are what they are."""

import msgspec
import pytest

from bus.clock import format_stamp
from bus.jetstream.head_trimming import HeadTrimming

DAY_US = 86_400_000_000
NOW_US = 1_800_000_000_000_000
KEEP_US = 30 * DAY_US


class Server:
    """Stamps by sequence; ``read``: up to which event its consumers have read."""

    def __init__(self, stamps, read=(), now_us=NOW_US, age=0):
        self.stamps, self.read, self.now_us, self.age = stamps, list(read), now_us, age
        self.ages = []

    async def ask(self, request, body=b""):
        asked = msgspec.json.decode(body) if body else {}
        kind = request.removesuffix(".HISTORY")
        if kind == "STREAM.UPDATE":
            self.age = asked["max_age"]
            self.ages.append(self.age)
        if kind == "CONSUMER.LIST":
            page = self.read[asked["offset"] :][:2]
            said = {"total": len(self.read), "consumers": [{"delivered": {"stream_seq": n}} for n in page]}  # fmt: skip
        elif kind == "STREAM.MSG.GET":
            said = {"message": {"time": format_stamp(self.stamps[asked["seq"]])}}
        else:
            state = {"first_seq": min(self.stamps), "last_seq": max(self.stamps)}
            config = {"name": "HISTORY", "max_age": self.age}
            said = {"config": config, "state": state, "ts": format_stamp(self.now_us)}
        return msgspec.json.encode(said)


def old(days=40, **more):
    """Ten events, a day apart, of which the first was stored so many days ago."""
    return Server({n: NOW_US - (days - n + 1) * DAY_US for n in range(1, 11)}, **more)


async def due(server, until=5, sealed=10):
    return await HeadTrimming(server, "HISTORY").due(until, sealed, KEEP_US)


async def test_old_events_that_all_have_read_may_go():
    assert await due(old(read=[10, 9, 8])) == 36 * DAY_US - 1_000_000


@pytest.mark.parametrize(
    ("server", "read"),
    [
        (old(days=33), 10),
        (old(), 5),
        (old(read=[10, 9, 8, 5]), 10),
        (old(read=[3]), 10),
    ],
    ids=["too young", "unread by the ledger", "a reader stands there", "a reader is behind"],
)
async def test_what_is_young_or_unread_stays(server, read):
    assert await due(server, sealed=read) == 0
    assert server.ages == []


async def test_events_that_the_stream_has_not_stay_as_they_are():
    server = old()
    del server.stamps[1], server.stamps[2]
    assert [await due(server, until=n) for n in (2, 10, 11)] == [0, 0, 0]


async def test_the_events_that_stay_are_an_hour_younger():
    """A slow answer, or a small step of the server's clock, drops what is as old as the last event to go, and no more."""
    server = old()
    for n in range(6, 11):
        server.stamps[n] = server.stamps[5] + 60_000_000
    assert await due(server) == 0


@pytest.mark.parametrize("ahead", [DAY_US, 365 * DAY_US])
async def test_an_event_of_a_clock_that_was_ahead_waits_until_it_is_old(ahead):
    server = old()
    server.stamps[1] = NOW_US + ahead
    assert await due(server) == 0


async def test_events_of_a_clock_that_was_behind_protect_nothing():
    server = old()
    server.stamps[10] = NOW_US - 3_650 * DAY_US
    assert await due(server) == 0
    assert await due(server, sealed=9) > 0


async def test_an_age_that_an_interrupted_trimming_left_is_taken_back():
    server = old(age=31 * DAY_US * 1_000)
    assert await HeadTrimming(server, "HISTORY").first() == 1
    assert server.ages == [0]


async def test_the_age_is_taken_back_at_once():
    server = old()
    assert not await HeadTrimming(server, "HISTORY").drop(5, 36 * DAY_US)
    assert server.ages == [36 * DAY_US * 1_000, 0]
