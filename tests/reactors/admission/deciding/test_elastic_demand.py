"""What is refused or waits is wanted still: those who borrowed it may not borrow it anew."""

import pytest

from bus.events.clock import LEADER, ClockTicked
from bus.events.nodes import NodeObserved
from bus.events.quotas import Queue
from projections.quota_trees.unmet import MOST, WANTED_US
from tests.reactors.cluster import QUOTA, Cluster, job

pytestmark = pytest.mark.simulated

NAME = "quota.scheduling.koordinator.sh/name"
CARD = "nvidia.com/gpu"
MINUTE = 60


@pytest.fixture
async def cluster():
    """100 cards; `a` and `b` may borrow all of them."""
    async with Cluster() as running:
        for name in "ab":
            await running.see_quota(
                name, {}, kind="ElasticQuota", namespace="quotas", max={CARD: 100}
            )
        node = NodeObserved(uid="n", name="n", resource_version="1", allocatable={CARD: "100"})
        await running.say(node, "n")
        yield running


async def ask(cluster, quota, name, cards, uid=""):
    """A Job wants so many cards; each try has a uid of its own, as at an API server."""
    made = job(name, 1, "")
    container = made["spec"]["template"]["spec"]["containers"][0]
    container["resources"]["limits"] = {CARD: str(cards)}
    made["metadata"] |= {"labels": {NAME: quota}, "uid": uid or f"{name}-{cluster.clock.us}"}
    return (await cluster.review(made)).reason


async def tick(cluster, after=10):
    cluster.clock.after(after)
    await cluster.say(ClockTicked(), LEADER)


async def full(cluster):
    """`b` borrowed 70, and `a` wanted 60; then most of what `b` ran ends."""
    assert await ask(cluster, "b", "b1", 40, "b1") == "fits"
    assert await ask(cluster, "b", "b2", 30, "b2") == "fits"
    assert await ask(cluster, "a", "a1", 60) == "over-quota"
    await cluster.lose("b1")


async def test_who_borrowed_may_not_borrow_again_what_another_was_refused(cluster):
    await full(cluster)
    await tick(cluster)

    assert await ask(cluster, "b", "b3", 40) == "over-quota"
    assert await ask(cluster, "a", "a1", 60) == "fits"


async def test_what_nobody_asks_for_any_more_is_borrowed_again(cluster):
    await full(cluster)
    await tick(cluster, WANTED_US // 10**6)

    assert await ask(cluster, "b", "b3", 40) == "fits"


async def test_asking_again_is_one_demand_that_stays_wanted(cluster):
    await full(cluster)
    for _ in range(4):
        # What runs still of `b` leaves no room.
        assert await ask(cluster, "a", "a2", 71) == "over-quota"
        await tick(cluster, WANTED_US // 10**6 - 10)
    tree = cluster.admission.journals.trees["elastic/"]

    assert [one.name for one in tree.refused] == ["a2"]


async def test_two_that_want_more_than_their_shares_do_not_block_each_other(cluster):
    """Each wants 60 of 100, where its share is 50 while the other wants as much: who asked first comes first."""
    await full(cluster)
    assert await ask(cluster, "b", "b3", 90) == "over-quota"
    await cluster.lose("b2")
    await tick(cluster)

    assert await ask(cluster, "b", "b3", 90) == "over-quota"
    assert await ask(cluster, "a", "a1", 60) == "fits"


async def test_what_never_fits_keeps_nobody_from_borrowing(cluster):
    assert await ask(cluster, "a", "a1", 101) == "over-quota"
    await tick(cluster)

    assert await ask(cluster, "b", "b1", 100) == "fits"


async def test_a_storm_of_refused_names_is_remembered_in_bounds(cluster):
    """A tenant who invents names fills no memory, and what he wants counts no further than his share."""
    assert await ask(cluster, "b", "b1", 100) == "fits"
    for number in range(MOST + 20):
        assert await ask(cluster, "a", f"n{number}", 60) == "over-quota"
    await tick(cluster)
    tree = cluster.admission.journals.trees["elastic/"]

    assert len(tree.refused) == MOST


async def test_what_waits_in_a_queue_counts_as_wanted(cluster):
    """Business quotas with elastic shares: `teamb` may not take again what the head of `teama`'s queue waits for."""
    for name in ("teama", "teamb"):
        await cluster.see_quota(
            name, {}, parent="org", max={"cpu": 100_000}, queue=Queue(hold=name == "teama")
        )
    await cluster.see_quota("org", {})
    node = NodeObserved(uid="n", name="n", resource_version="2", allocatable={"cpu": "100"})
    await cluster.say(node, "n")
    wanted = {"requests.cpu": 60_000, "limits.cpu": 60_000}
    await cluster.see("waits", 0, quota="teama", suspended=True, held=True, wanted=wanted)
    assert (await cluster.ask("before", 51, quota="teamb")).reason == "fits"
    await cluster.lose("before")
    await tick(cluster)

    assert (await cluster.ask("more", 51, quota="teamb")).reason == "over-quota"
    assert (await cluster.ask("less", 40, quota="teamb")).reason == "fits"
    assert QUOTA in cluster.admission.view.objects["waits"].labels
