"""What is never evicted: namesakes, what is within its share again, more than the limits, and anything on wrong evidence."""

import msgspec
import pytest

from bus.errors import ClusterUnavailableError
from bus.events.histories import HistoryRecovered
from bus.events.pods import PodObserved, PodsListed
from bus.events.policies import PauseChanged
from reactors.engine.settings import Pace
from tests.reactors.evictions.scene import overuse

pytestmark = pytest.mark.simulated


async def test_another_object_of_the_same_name_is_never_touched(cluster):
    await overuse(cluster, 11)
    cluster.pods["p09"] = "another"
    for _ in range(4):
        await cluster.tick()

    assert ([], "another") == (cluster.evicted, cluster.pods["p09"])
    assert [("gone", "another object has this name")] == cluster.outcomes()


async def test_what_is_within_its_share_again_is_not_evicted(cluster):
    await overuse(cluster, 11)
    cluster.refuses = ClusterUnavailableError(status=503, message="down")
    for _ in range(4):
        await cluster.tick()
    cluster.refuses = None
    assert 1 == len(cluster.decisions())
    await cluster.nodes(40)
    await cluster.settled()
    await cluster.deciding.read()
    cluster.runner._again_at.clear()
    await cluster.runner.work()

    assert [("stale", "within_share")] == cluster.outcomes()
    assert [] == cluster.evicted


async def test_at_most_the_limit_goes_in_a_minute_each_once(cluster):
    await cluster.policy(
        monitor_all_quotas=True,
        delay_evict_seconds=0,
        pace=Pace(per_minute=1, per_node=99, per_namespace=99),
    )
    await overuse(cluster, 12)
    for _ in range(3):
        await cluster.tick()
    assert 1 == len(cluster.evicted)
    for _ in range(14):
        await cluster.tick()

    assert ["p09", "p06"] == cluster.evicted


async def test_the_limit_holds_for_what_is_done_after_an_outage_too(cluster):
    await cluster.policy(
        monitor_all_quotas=True, delay_evict_seconds=20, pace=Pace(per_minute=1, per_namespace=99)
    )
    await overuse(cluster, 12)
    cluster.refuses = ClusterUnavailableError(status=503, message="down")
    while len(cluster.decisions()) < 2:
        await cluster.tick()
    cluster.refuses = None
    cluster.runner._again_at.clear()
    await cluster.tick()
    assert ["p09"] == cluster.evicted
    for _ in range(5):
        await cluster.tick()
    assert ["p09"] == cluster.evicted
    await cluster.tick()

    assert ["p09", "p06"] == cluster.evicted


async def test_a_pause_evicts_nobody(cluster):
    await overuse(cluster)
    await cluster.tick()
    await cluster.say(PauseChanged(is_paused=True, author="ada"), "reactors")
    for _ in range(5):
        await cluster.tick()

    assert [] == cluster.decisions()


@pytest.mark.parametrize("what", ["emptied", "regressed"])
async def test_nobody_is_evicted_after_an_emptied_list_or_a_regressed_bus(cluster, what):
    await overuse(cluster)
    await cluster.tick()
    if what == "emptied":
        for number in range(100):
            cluster.pods.pop(f"else-{number}")
        listed = PodsListed(resource_version="999999", uids=tuple(sorted(cluster.pods.values())))
        cluster.clock.after(1)
        await cluster.say(listed, "999999-1")
    else:
        await cluster.say(HistoryRecovered(incarnation=2, published=3), "recovered")
    for _ in range(6):
        await cluster.tick()

    assert [] == cluster.evicted


@pytest.mark.parametrize("version", ["the same", "a newer"])
async def test_what_is_seen_after_a_list_without_it_is_believed(cluster, version):
    await overuse(cluster)
    pods = [PodObserved.read(e) for e in cluster.transport.events if e.type == "pod.observed"]
    cluster.clock.after(1)
    await cluster.say(PodsListed(resource_version="999999", uids=()), "999999-1")
    await cluster.tick()
    assert 0 == cluster.runner.replica.states["evictions"].bound
    for fact in pods:
        if version == "a newer":
            newer = str(int(fact.resource_version) + 1_000_000)
            fact = msgspec.structs.replace(fact, resource_version=newer)
        await cluster.say(fact, f"{fact.uid}-again", settles=False)
    for _ in range(75):
        await cluster.tick()

    assert ["p09", "p06"] == cluster.evicted
