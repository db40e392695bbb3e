"""When nothing may be decided, and how much at most. Source: docs/reliability.md."""

import pytest

from bus.events.decisions import Cull, Target, Warn
from bus.events.histories import HistoryRecovered
from bus.events.policies import PauseChanged
from reactors.engine.interlocks import LimitGate
from reactors.engine.settings import Pace
from tests.factories import pod_observed, pods_listed, said
from tests.reactors.engine.toys import FAST, Scene


async def scene(pods=100, **policy):
    """Some busy pods were seen, time passes, and culling is on."""
    found = Scene()
    await found.policy(**policy)
    await found.tick(0)
    await found.say(*(pod_observed(f"busy-{n}", at=1) for n in range(pods)))
    return found


def idle(count, at=2, **fields):
    return [pod_observed(f"idle-{n}", at=at, **fields) for n in range(count)]


@pytest.mark.parametrize(("busy", "wanted"), [(0, 1), (30, 1), (90, 2), (490, 10)])
async def test_at_most_two_percent_and_at_least_one_in_five_minutes(busy, wanted):
    at = await scene(busy)
    await at.say(*idle(10))
    for _ in range(29):
        await at.tick()

    assert wanted == len(at.decisions())


async def test_after_five_minutes_the_next_ones_may_go():
    at = await scene(100)
    await at.say(*idle(10))
    for _ in range(61):
        await at.tick()

    assert [10, 10, 310, 310, 610, 610] == [int((d.at_us - at.decisions()[0].at_us) / 1e6) + 10
                                            for d in at.decisions()]  # fmt: skip


@pytest.mark.parametrize(
    ("pace", "reason"),
    [
        (Pace(per_minute=0), "per_minute"),
        (Pace(per_namespace=0), "per_namespace"),
        (Pace(per_node=0), "per_node"),
        (Pace(per_workload=0), "per_workload"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_the_pace_of_a_policy_limits_by_minute_namespace_node_and_workload(pace, reason):
    at = await scene(200, pace=pace)
    await at.say(*idle(1))
    await at.tick()

    assert ([], {"idle-0": reason}) == (at.decisions(), at.runner.replica.withheld)


async def held(at, minutes=9):
    """Whether nothing is decided for so many minutes of ticks after what was said last."""
    await at.say(*idle(5, at=at.at()))
    for _ in range(minutes * 6):
        await at.tick()
    return not at.decisions()


async def test_none_for_ten_minutes_after_the_history_was_recovered():
    at = await scene()
    await at.say(said(HistoryRecovered(incarnation=2), key="history", id="r", at=3))

    assert await held(at)
    assert not await held(at, minutes=2)


@pytest.mark.parametrize("seconds", [61, 3_600, 365 * 86_400, -61, -86_400])
async def test_none_for_ten_minutes_after_two_ticks_more_than_60_s_apart(seconds):
    at = await scene()
    await at.tick(seconds)

    assert await held(at)
    assert not await held(at, minutes=2)


async def test_ticks_a_minute_apart_hold_nothing():
    at = await scene()
    await at.tick(60)

    assert not await held(at, minutes=1)


async def test_none_for_ten_minutes_after_a_list_that_lost_more_than_a_fifth():
    at = await scene(100)
    await at.say(pods_listed([f"busy-{n}" for n in range(79)], version=5, at=5))

    assert await held(at)
    assert not await held(at, minutes=2)


async def test_a_list_that_lost_a_fifth_or_less_holds_nothing():
    at = await scene(100)
    await at.say(pods_listed([f"busy-{n}" for n in range(80)], version=5, at=5))

    assert not await held(at, minutes=1)


async def test_an_emptied_list_in_parts_holds():
    at = await scene(100)
    await at.say(pods_listed([f"busy-{n}" for n in range(0, 100, 2)], version=5, at=5, per_part=9))

    assert await held(at)


def interleaved(uids, *, versions=(5, 6), at=5):
    """The lists of several watchers: a part of each in turn."""
    lists = [pods_listed(uids, version=one, at=at, per_part=5) for one in versions]
    return [part for parts in zip(*lists, strict=True) for part in parts]


@pytest.mark.parametrize("versions", [(5, 6), (6, 5), (5, 5), (5, 6, 7)])
async def test_lists_of_several_watchers_hide_no_loss_from_each_other(versions):
    at = await scene(100)
    left = [f"busy-{n}" for n in range(0, 100) if n % 4]
    await at.say(*interleaved(left, versions=versions))

    assert await held(at)
    assert not await held(at, minutes=2)


async def test_lists_of_several_watchers_without_a_fifth_hold_nothing():
    at = await scene(100)
    await at.say(*interleaved([f"busy-{n}" for n in range(0, 100) if n % 5]))

    assert not await held(at, minutes=1)


async def test_what_a_list_that_was_given_up_missed_is_not_counted_for_ever():
    at = await scene(100)
    names = [f"busy-{n}" for n in range(100)]
    given_up, *_ = pods_listed(names, version=5, at=5, per_part=5)
    await at.say(given_up)
    for count in range(99, 70, -1):
        for _ in range(6):
            await at.tick()
        await at.say(pods_listed(names[:count], version=1_000 - count, at=at.at()))
    for _ in range(6):
        await at.tick()
    state = at.runner.replica.interlocks

    assert not state.hold(state.ticked_us)


async def test_unfinished_lists_are_bounded():
    at = await scene(100)
    for version in range(50):
        part, *_ = pods_listed([f"busy-{n}" for n in range(100)], version=version, at=5, per_part=5)
        await at.say(part)

    assert len(at.runner.replica.interlocks.saved()._lists["Pod"]) <= 5


async def test_an_object_seen_after_the_list_was_asked_for_is_not_missed_in_it():
    at = await scene(100)
    await at.say(pods_listed([], version=5, at=0))

    assert not await held(at, minutes=1)


async def test_an_emptied_list_never_leads_to_a_decision():
    at = await scene(10)
    await at.say(*idle(3), pods_listed([], version=5, at=5))
    await at.tick()

    assert [] == at.decisions()


async def test_while_paused_nothing_is_decided_and_afterwards_it_is():
    at = await scene()
    await at.say(said(PauseChanged(is_paused=True, author="a"), key="reactors", id="p", at=3))
    assert await held(at, minutes=1)
    await at.say(said(PauseChanged(is_paused=False, author="a"), key="reactors", id="q", at=4))

    assert not await held(at, minutes=1)


async def test_what_a_shadow_decides_takes_nothing_from_what_is_really_done():
    at = await scene(0, mode="shadow", pace=FAST)
    await at.say(*idle(1))
    await at.tick()
    await at.policy("on")
    await at.say(pod_observed("idle-9", at=3))
    await at.tick()

    assert [True, False] == [decision.is_shadow for decision in at.decisions()]


def test_the_gate_counts_stops_and_no_warnings():
    target = Target("Notebook", "ns", "nb", "nb")
    common = {
        "id": "0" * 32, "reactor": "culling", "rules": 1, "key": "nb", "trigger": 1, "at_us": 10, "policy": "",
        "is_shadow": False, "target": target, "reason": "idle", "expires_us": 99,
    }  # fmt: skip
    gate = LimitGate("", 10, [])
    one = Pace(per_minute=1, per_namespace=1, per_workload=1)

    answers = [
        gate.refuses(verb(**common), managed=0, pace=one)
        for verb in (Warn, Warn, Warn, Cull, Warn, Cull)
    ]
    assert ["", "", "", "", "", "blast_radius"] == answers
