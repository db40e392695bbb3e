"""What a pod's placement becomes while it is worked on: nothing is done of it twice at once, and nothing is left of it."""

import asyncio

import msgspec
import pytest

from bus.errors import ClusterUnavailableError, ConflictError
from reactors.scheduling.effectors import binder
from reactors.scheduling.framework.bind import DONE, Prepared
from reactors.scheduling.plugins.default_binder import DefaultBinder
from tests.reactors.scheduling.outstanding import World

pytestmark = pytest.mark.simulated


class Prepares:
    """Takes so many seconds for each decision, and then answers; notes what it does at once."""

    name, is_local = "Prepares", True

    def __init__(self, **answers):
        self.answers, self.begun, self.now, self.twice = answers, [], [], []

    async def pre_bind(self, cycle):
        decision = cycle.placement.decision
        seconds, answer = self.answers[decision]
        self.twice += [decision] if decision in self.now else []
        self.begun.append(decision)
        self.now.append(decision)
        await asyncio.sleep(seconds)
        self.now.remove(decision)
        return answer


class Counted(World):
    """Counts the looks at all that is outstanding, and may be paused."""

    def __init__(self, *names):
        self.full, self.is_paused = 0, False
        super().__init__(*names)

    def pause(self, is_paused):
        self.is_paused, self.moves = is_paused, self.moves + 1
        self._waits.wake()

    def decisions(self):
        self.full += 1
        return [] if self.is_paused else super().decisions()

    def placement(self, uid):
        return None if self.is_paused else super().placement(uid)


async def test_an_older_placement_that_asks_for_more_time_has_the_newer_one_not_worked_on_twice():
    world = Counted("p")
    plugin = Prepares(d1=(1.0, Prepared(5.0)), d2=(20.0, DONE))
    world.plugins = [plugin, DefaultBinder()]
    async with world.running():
        await asyncio.sleep(0.5)
        world.place("p", "n2", "d2")
        await asyncio.sleep(60)

    assert (plugin.begun, plugin.twice) == (["d1", "d2"], [])
    assert world.cluster.asked == [("p", "n2")]


@pytest.mark.parametrize("answer", [Prepared(2.0), DONE])
async def test_nothing_is_looked_at_for_ever_of_a_pod_that_went_while_it_was_worked_on(answer):
    world = Counted("p")
    world.plugins = [Prepares(d1=(1.0, answer)), DefaultBinder()]
    world.cluster.seconds = 1.0
    async with world.running():
        await asyncio.sleep(0.5 if answer != DONE else 1.5)
        world.wanted.clear()
        world.moves += 1
        await asyncio.sleep(400)
        before = world.full
        await asyncio.sleep(100)

        assert world.full - before <= 1
        assert (world.binder._again_at, world.binder._data, world.binder._busy) == ({}, {}, set())


async def test_what_is_queued_or_in_work_through_a_pause_is_bound_once(monkeypatch):
    monkeypatch.setattr(binder, "AT_ONCE", 1)
    world = Counted("p", "q", "r")
    world.cluster.seconds = 5.0
    async with world.running():
        for _ in range(3):
            await asyncio.sleep(0.5)
            world.pause(True)
            await asyncio.sleep(0.5)
            world.pause(False)
        await asyncio.sleep(60)

    assert sorted(world.cluster.asked) == [("p", "n1"), ("q", "n1"), ("r", "n1")]


async def test_who_rests_through_a_pause_binds_once_when_the_rest_is_over(monkeypatch):
    monkeypatch.setattr(binder, "AT_ONCE", 2)
    world = Counted("p", "q", "r")
    world.cluster.errors = {"p": [ClusterUnavailableError(status=429, delay_seconds=7.0)]}
    async with world.running():
        await asyncio.sleep(1)
        world.pause(True)
        await asyncio.sleep(1)
        world.pause(False)
        await asyncio.sleep(60)

    assert sorted(world.cluster.asked) == [("p", "n1"), *((name, "n1") for name in "pqr")]


async def test_a_request_that_may_still_arrive_keeps_its_room_through_a_pause():
    world = Counted("p")
    world.cluster.errors = {"p": [ClusterUnavailableError()]}
    async with world.running():
        await asyncio.sleep(0.5)
        world.pause(True)
        await asyncio.sleep(2)
        world.against = {"p": "node_gone"}
        world.pause(False)
        await asyncio.sleep(70)
        before = list(world.settled)
        await asyncio.sleep(10)

    assert ([], [("p", "refused")]) == (before, world.settled)


def renamed(world):
    """Another policy has other names for its profiles."""
    world.wanted = {
        uid: msgspec.structs.replace(one, profile="other") for uid, one in world.wanted.items()
    }
    world.moves += 1
    world._waits.wake()


async def test_what_is_queued_or_in_work_when_its_profile_gets_another_name_is_bound(monkeypatch):
    monkeypatch.setattr(binder, "AT_ONCE", 1)
    world = Counted("p", "q")
    plugin = Prepares(d1=(5.0, DONE))
    world.plugins = [plugin, DefaultBinder()]
    async with world.running():
        await asyncio.sleep(1)
        renamed(world)
        await asyncio.sleep(60)

    # The plugins of the other profile are asked about the first one, too.
    assert plugin.begun == ["d1"] * 3
    assert sorted(world.cluster.asked) == [("p", "n1"), ("q", "n1")]


async def test_a_refusal_counts_when_the_profile_gets_another_name():
    world = Counted("p")
    world.cluster.errors = {"p": [ConflictError(message="has gates")]}
    async with world.running():
        await asyncio.sleep(1)
        renamed(world)
        await asyncio.sleep(60)

    assert (world.cluster.asked, world.settled) == ([("p", "n1")], [("p", "refused")])
