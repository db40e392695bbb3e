"""A source that is still being told says so, so that a quiet pod is charged up to the last proof of it."""

import msgspec
import pytest

from bus.clock import SECOND_US, ServerClock, SystemClock
from bus.events.observations import SourceHeard
from bus.kube.watch.contract import GoneError, ReflectorSettings
from bus.kube.watch.heartbeats import Heartbeats
from bus.sources.catalogue import NODES, PODS
from tests.bus.kube.watch.fakes import QUICK, Followed, bookmark, error, line, page, pod

pytestmark = pytest.mark.simulated

OFTEN = msgspec.structs.replace(QUICK, heartbeat_seconds=0.02, silence_seconds=5.0)


def beats(followed):
    return [
        SourceHeard.read(event)
        for event in followed.transport.events
        if event.type == "source.heard"
    ]


async def spaced(followed, seconds=0.05):
    await followed.settle(seconds)


async def test_a_bookmark_of_a_quiet_watch_is_said_with_its_time_and_version():
    async with Followed([page("3", pod("a", "3"))], settings=OFTEN) as followed:
        await followed.until(lambda f: f.lists())
        await spaced(followed)
        followed.clock.us += 60 * SECOND_US
        await followed.reflector._take([bookmark("7")])

        (told,) = [e for e in followed.transport.events if e.type == "source.heard"]

        assert (told.key, told.time_us, told.cluster) == ("pods", followed.clock.us, "default")
        assert beats(followed) == [SourceHeard(resource="pods", resource_version="7")]


async def test_heartbeats_have_a_bounded_rate_whatever_the_server_sends():
    async with Followed([page("3", pod("a", "3"))]) as followed:
        await followed.until(lambda f: f.lists())
        for version in range(4, 200):
            await followed.reflector._take([bookmark(str(version))])

        assert beats(followed) == []

    async with Followed([page("3", pod("a", "3"))], settings=OFTEN) as followed:
        await followed.until(lambda f: f.lists())
        await spaced(followed)
        for version in range(4, 200):
            await followed.reflector._take([line("MODIFIED", pod("a", str(version)))])

        assert 1 <= len(beats(followed)) < 20


async def test_nothing_is_proven_before_a_list_is_believed_or_while_one_is_asked_for():
    async with Followed([page("3", remaining=4)], settings=OFTEN) as followed:
        await followed.until(lambda f: f.state.relists)
        await spaced(followed)
        await followed.reflector._take([bookmark("7")])

        assert beats(followed) == []

    async with Followed([page("3", pod("a", "3"))], settings=OFTEN) as followed:
        await followed.until(lambda f: f.lists())
        await spaced(followed)
        followed.reflector._schedule.want("refused", 5.0)
        await followed.reflector._take([bookmark("7")])

        assert beats(followed) == []


async def test_a_version_that_is_gone_ends_the_proof_until_the_next_list():
    pages = [page("3", pod("a", "3")), GoneError(status=410), page("9", pod("a", "3"))]
    async with Followed(pages, [[error(410)]], settings=OFTEN) as followed:
        await followed.until(lambda f: len(f.lists()) == 2)
        times = [event.type for event in followed.transport.events]

        assert "source.heard" not in times[: times.index("pods.listed", 2)]


async def test_kinds_that_charge_nothing_say_so_more_seldom_and_an_offset_is_recorded():
    async with Followed([page("3")], settings=OFTEN, source=NODES) as followed:
        await followed.until(lambda f: f.state.listed_us)
        await spaced(followed)
        await followed.reflector._take([bookmark("7")])

        assert beats(followed) == []

        await spaced(followed, 0.25)
        followed.reflector._clock.offset_us = 3_600 * SECOND_US
        await followed.reflector._take([bookmark("8")])

        assert beats(followed) == [
            SourceHeard(resource="nodes", resource_version="8", offset_us=3_600 * SECOND_US)
        ]


def test_a_watch_that_is_alive_is_reported_within_75_seconds():
    """The first bookmark comes 40 s after a list: left out, as too early, there would be no report for 100 s."""
    beats = Heartbeats(PODS, "c", ServerClock(SystemClock()), ReflectorSettings())
    beats.listed(0)
    bookmarks = (40, 42, 100, 160)

    assert [at for at in bookmarks if beats.due(at, 0, "1", is_quiet=True)] == [40, 100, 160]


def test_a_busy_watch_is_reported_once_in_its_period():
    beats = Heartbeats(PODS, "c", ServerClock(SystemClock()), ReflectorSettings())
    beats.listed(0)

    assert [at for at in range(100) if beats.due(at, 0, "1", is_quiet=False)] == [45, 90]
