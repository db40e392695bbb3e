"""Why not yet: what is due and held back, by which limit or interlock, and until when."""

import pytest

from bus.clock import SECOND_US
from bus.events.policies import PauseChanged
from reactors.engine.reasons import explained
from reactors.engine.settings import Pace
from tests.factories import START_US, pod_observed, pods_listed, said
from tests.reactors.engine.toys import FAST, Scene


async def scene(idle=3, busy=100, **policy):
    """Busy pods, then idle ones, and one tick at which is decided."""
    found = Scene()
    await found.policy(**policy)
    await found.tick(0)
    await found.say(*(pod_observed(f"busy-{n}", at=1) for n in range(busy)))
    await found.say(*(pod_observed(f"idle-{n}", at=2) for n in range(idle)))
    return found


def blocked(at):
    """(key, reason, second until) of everything that is held back now."""
    return [
        (one.decision.key, one.reason, one.until_us and (one.until_us - START_US) // SECOND_US)
        for one in at.runner.replica.blocked(at.clock.us)
    ]


async def test_what_the_limit_of_all_destructive_decisions_holds_back_is_told_with_its_end():
    at = await scene(idle=4)
    await at.tick()

    assert blocked(at) == [("idle-2", "blast_radius", 310), ("idle-3", "blast_radius", 310)]


@pytest.mark.parametrize(
    ("pace", "reason", "until"),
    [
        (Pace(per_minute=1), "per_minute", 70),
        (Pace(per_namespace=1), "per_namespace", 310),
        (Pace(per_node=1), "per_node", 310),
    ],
)
async def test_what_the_pace_of_a_policy_holds_back_is_told_with_its_end(pace, reason, until):
    at = await scene(idle=2, pace=pace)
    await at.tick()

    assert blocked(at) == [("idle-1", reason, until)]


async def test_a_limit_of_none_has_no_end():
    at = await scene(idle=1, pace=Pace(per_minute=0))
    await at.tick()

    assert blocked(at) == [("idle-0", "per_minute", 0)]


async def test_what_an_interlock_holds_back_is_told_with_its_end():
    at = await scene(idle=1)
    await at.tick(after=61)

    assert blocked(at) == [("idle-0", "clock_jumped", 661)]


async def test_an_interlock_that_begins_with_the_next_tick_holds_already():
    at = await scene(idle=1)
    await at.say(pods_listed(["idle-0"], version=5, at=5))

    assert [one[:2] for one in blocked(at)] == [("idle-0", "objects_lost")]


async def test_what_a_pause_holds_back_is_told_without_an_end():
    at = await scene(idle=1)
    await at.say(said(PauseChanged(is_paused=True, author="a"), key="reactors", id="p", at=3))
    await at.tick()

    assert blocked(at) == [("idle-0", "paused", 0)]


async def test_nothing_is_held_back_where_the_reactor_is_off():
    at = await scene(idle=4, mode="off")

    assert blocked(at) == []


async def test_to_ask_changes_nothing():
    at = await scene(idle=4)
    for _ in range(3):
        blocked(at)
    await at.tick()

    assert len(at.decisions()) == 2


async def test_as_soon_as_the_told_end_comes_the_next_one_goes():
    at = await scene(idle=2, busy=0, pace=FAST)
    await at.tick()
    ((_, _, until),) = blocked(at)
    while at.at() + 10 < until:
        await at.tick()

    assert len(at.decisions()) == 1
    await at.tick()
    assert len(at.decisions()) == 2


async def test_a_reason_is_explained_in_a_sentence():
    at = await scene(idle=1, pace=Pace(per_minute=0))
    (one,) = at.runner.replica.blocked(at.clock.us)

    assert explained(one).startswith("stop delayed: its policy's limit of a minute")
