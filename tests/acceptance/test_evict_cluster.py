"""Giving back on a real API server, with its disruption budgets: who goes, in which order, how fast, and who never does."""

import asyncio
from collections import Counter

import pytest

from bus.events.decisions import EffectSettled, Evict
from bus.events.histories import HistoryRecovered
from bus.memory import MemoryTransport
from reactors.catalogue import REACTORS
from reactors.engine.verify import rederive
from tests.acceptance import evicting
from tests.acceptance.evicting import BYSTANDERS, GROUPS, HELD, LEAST, PER_MINUTE, crowded
from tests.cluster import build
from tests.cluster.plane import ControlPlane

pytestmark = [
    pytest.mark.kube, pytest.mark.slow, pytest.mark.waits, pytest.mark.timeout(420),
]  # fmt: skip

OVER = 60
LIMIT = HELD - OVER
FIVE_MINUTES_US = 300 * 10**6
MINUTE_US = 60 * 10**6
#: What has to go besides, once the hold after a regressed bus is over.
MORE = 5
#: In any five minutes.
MOST = (HELD + BYSTANDERS) // 50


@pytest.fixture
def plane(tmp_path):
    """Its webhooks are for a whole cluster, so not the shared one."""
    if reason := build.missing():
        pytest.skip(f"no control plane: {reason}")
    with ControlPlane(tmp_path / "plane", scheduler=False) as running:
        running.create_nodes(10)
        yield running


async def test_a_quota_is_given_back_to_its_limit_and_nobody_else_is_touched(
    plane, tmp_path, monkeypatch
):
    transport = MemoryTransport()
    async with crowded(plane, tmp_path, transport, monkeypatch) as scene:
        before = await scene.pods()
        await scene.limit(LIMIT)
        shadow = await shadowed(scene)
        assert touched(before, await scene.pods()) == set()
        assert shadow == evicting.least_first(before)[:OVER]

        replaced = dict(
            zip([n for n in shadow if n.startswith("usual")][:2], ("get", "evict"), strict=True)
        )
        scene.door.replaced_before = dict(replaced)
        await scene.mode("on")
        await given_back(scene)
        after = await scene.pods()
        check_victims(before, after, shadow, scene, replaced)
        check_pace(transport)
        check_outcomes(transport, replaced)
        await check_holds(scene)
    found = rederive(lambda: transport.events, REACTORS, "c1")
    assert ((), True) == (found.mismatches, found.same >= 2 * OVER)


async def shadowed(scene):
    """Names of all that would have gone, in order; nothing more is said of them."""
    async with asyncio.timeout(150):
        while len(decisions(scene.transport)) < OVER:
            await asyncio.sleep(0.2)
    await scene.clock.after(400)
    found = decisions(scene.transport)
    assert all(one.is_shadow for one in found)
    print(f"shadow: {len(found)} victims in {(found[-1].at_us - found[0].at_us) // 10**6} s")
    return [one.target.name for one in found]


async def given_back(scene):
    """Until the quota uses no more than its limit; then nobody else goes."""
    view = scene.running.replica.states[evicting.NAME]
    async with asyncio.timeout(200):
        while view.used()["team"]["cpu"] > LIMIT * 1000 or view.awaited:
            await asyncio.sleep(0.2)
    at = len(decisions(scene.transport))
    await scene.clock.after(200)
    assert at == len(decisions(scene.transport))
    assert view.used()["team"]["cpu"] == LIMIT * 1000


def touched(before, after):
    """Names of pods that are other objects now, are about to go, or went."""
    return {
        name
        for name, one in before.items()
        if name not in after
        or after[name]["metadata"]["uid"] != one["metadata"]["uid"]
        or "deletionTimestamp" in after[name]["metadata"]
    }


def check_victims(before, after, shadow, scene, replaced):
    """The least important that their budgets let go, once each; those in their stead stay."""
    order = evicting.least_first(before)
    willing = [name for name in order if not name.startswith("frozen")]
    few = [name for name in willing if name.startswith("few")]
    stay = set(few[GROUPS["few"][0] - LEAST["few"] :])
    due = [name for name in willing if name not in stay][:OVER]
    gone = {before[name]["metadata"]["uid"] for name in due if name not in replaced}
    on = [one.target.name for one in decisions(scene.transport) if not one.is_shadow]

    assert set(due) == touched(before, after)
    assert sorted(gone) == sorted(scene.door.evicted)
    assert set(replaced) == set(scene.namesakes)
    for name, uid in scene.namesakes.items():
        assert uid == after[name]["metadata"]["uid"]
    assert shadow == list(dict.fromkeys(on))[:OVER]
    refused = len(stay) + GROUPS["frozen"][0]
    assert OVER + refused == len(set(on))


def check_pace(transport):
    """At no moment more than the limit in the minute before, nor more than the interlock lets in five."""
    for mode in ("shadow", "on"):
        at = [d.at_us for d in decisions(transport) if d.is_shadow == (mode == "shadow")]
        minute, five = most(at, MINUTE_US), most(at, FIVE_MINUTES_US)
        print(f"{mode}: {len(at)} decisions, at most {minute} a minute and {five} in five")
        assert (minute, five) <= (PER_MINUTE, MOST)
        assert minute == PER_MINUTE, "the limit was not reached, so nothing was shown"
    done = [at for at, fact in outcomes(transport) if fact.result == "done"]
    print(f"evicted: {len(done)}, at most {most(done, MINUTE_US)} a minute")
    assert most(done, MINUTE_US) <= PER_MINUTE


def check_outcomes(transport, replaced):
    """Every refusal names the budget; a pod that was replaced is gone."""
    of = {one.id: one.target.name for one in decisions(transport)}
    found = [(of[f.decision], f.result, f.message) for _, f in outcomes(transport)]
    print(Counter((result, message[:60]) for _, result, message in found))
    for name, result, message in found:
        app = name.partition("-")[0]
        if result == "refused":
            assert app in LEAST
            assert f"The disruption budget {app} needs {LEAST[app]} healthy pods" in message
        elif name in replaced:
            assert (result, message) in [
                ("gone", "another object has this name"),
                ("gone", "not_found"),
                ("stale", "gone"),
            ]
        else:
            assert "done" == result


async def check_holds(scene):
    """Nobody goes after the bus regressed or a list was emptied, though the quota is over its limit."""
    transport, interlocks = scene.transport, scene.running.replica.interlocks
    before = await scene.pods()
    known = len(decisions(transport))
    fact = HistoryRecovered(incarnation=2, published=3)
    now_us = scene.clock.now_us()
    await transport.publish(
        [fact.event(cluster="c1", key="h", id="recovered", source="test", time_us=now_us)]
    )
    await scene.limit(LIMIT - MORE)
    await scene.clock.after(500)
    assert interlocks.hold(scene.clock.now_us()) == "history_recovered"
    assert (known, set()) == (len(decisions(transport)), touched(before, await scene.pods()))
    # What was held back goes when the hold is over.
    async with asyncio.timeout(60):
        while len(touched(before, await scene.pods())) < MORE:
            await asyncio.sleep(0.2)

    await scene.limit(LIMIT - 50)
    scene.door.is_empty = True
    scene.site.reflectors["pods"].relist("test")
    async with asyncio.timeout(30):
        while interlocks.hold(scene.clock.now_us()) != "objects_lost":
            await asyncio.sleep(0.01)
    known, before = len(decisions(transport)), await scene.pods()
    await scene.clock.after(300)
    assert (known, set()) == (len(decisions(transport)), touched(before, await scene.pods()))
    print(f"0 of {MORE} while held after a regressed bus, 0 of {50 - MORE} after an emptied list")


def most(times, window_us):
    """Most of the times that lie in one window, wherever it begins."""
    return max((sum(t <= one < t + window_us for one in times) for t in times), default=0)


def decisions(transport):
    return [Evict.read(one) for one in transport.events if one.type == Evict.wire_type]


def outcomes(transport):
    """(when, outcome) of evictions."""
    found = [one for one in transport.events if one.type == EffectSettled.wire_type]
    return [(one.time_us, EffectSettled.read(one)) for one in found]
