"""A workload of higher priority makes room in its own quota: who goes for it, when, and who never does."""

import pytest

from bus.events.policies import PauseChanged
from bus.events.quotas import Queue
from projections.quota_trees.unmet import WANTED_US
from reactors.engine.verify import rederive
from reactors.evictions.reactor import reactor
from tests import factories as said
from tests.reactors.evictions.scene import CARD, PDB, QUOTA, ask, preempting

pytestmark = pytest.mark.simulated

KEY = f"limits.{CARD}"
KEEP = {"quota.scheduling.koordinator.sh/preemptible": "false"}


@pytest.fixture
async def cluster():
    async with preempting() as running:
        yield running


async def test_as_few_of_the_least_important_go_as_make_room_and_then_it_fits(cluster):
    assert await ask(cluster, "urgent", 2) == "over-quota"
    await cluster.tick()

    assert ["p0", "p1"] == cluster.evicted
    assert await ask(cluster, "urgent", 2) == "fits"
    first = cluster.decisions()[0]
    assert (first.reason, first.quota, first.beneficiary) == (
        "quota-preempted", "team", "Job ns/urgent",
    )  # fmt: skip
    assert first.numbers == {
        "priority": 0, "for_priority": 50, f"asked_{KEY}": 2, f"used_{KEY}": 4, f"limit_{KEY}": 4,
    }  # fmt: skip
    found = rederive(lambda: cluster.transport.events, [reactor], "c1")
    assert ((), 2) == (found.mismatches, found.same)


async def test_by_default_it_is_decided_and_recorded_and_nothing_is_done(cluster):
    await cluster.policy()
    for _ in range(8):
        assert await ask(cluster, "urgent", 2) == "over-quota"
        await cluster.tick(50)

    assert [] == cluster.evicted
    assert [("p0", True), ("p1", True)] == [
        (one.target.name, one.is_shadow) for one in cluster.decisions()
    ]


async def test_a_shadow_names_them_anew_for_who_comes_after_the_first_has_given_up(cluster):
    await cluster.policy()
    await ask(cluster, "urgent", 1)
    for _ in range(WANTED_US // 10**6 // 50 + 1):
        await cluster.tick(50)
    await ask(cluster, "again", 1)
    await cluster.tick()

    told = [(one.target.name, one.beneficiary) for one in cluster.decisions()]
    assert told == [("p0", "Job ns/urgent"), ("p0", "Job ns/again")]


@pytest.mark.parametrize(
    ("cards", "priority"),
    [(2, "low"), (2, ""), (2, "polite"), (5, "high")],
    ids=[
        "a lower priority",
        "one that is more important than some, and not enough of them",
        "a class that takes nobody's room",
        "more than the quota has without anybody",
    ],
)
async def test_nobody_goes_for(cluster, cards, priority):
    await ask(cluster, "asker", cards, priority)
    for _ in range(3):
        await cluster.tick()

    assert [] == cluster.decisions()


async def test_what_is_not_preemptible_and_what_a_controller_makes_anew_stays(cluster):
    """Pods of a Job would be made anew, and its charge would make no room for anybody."""
    await cluster.run_pod("kept", quota="team", label=QUOTA, priority=-9, labels=KEEP)
    amounts = {f"requests.{CARD}": 2, KEY: 2}
    made = said.workload_observed(
        "job", kind="Job", cluster="c1", labels={QUOTA: "team"}, pods=2, demand=amounts
    )
    await cluster.transport.publish([made])
    for number in range(2):
        owner = said.owner("job", "Job")
        await cluster.run_pod(f"job-{number}", quota="team", label=QUOTA, priority=-9, owner=owner)
    await cluster.settled()
    await cluster.see_quota("team", {KEY: 7}, queue=Queue(hold=True))
    assert await ask(cluster, "urgent", 1) == "over-quota"
    await cluster.tick()

    assert ["p0"] == cluster.evicted


async def test_who_waits_in_the_queue_gets_room_too(cluster):
    wanted = {KEY: 1, f"requests.{CARD}": 1}
    await cluster.see(
        "waits", 0, suspended=True, held=True, wanted=wanted, priority_class="high"
    )  # fmt: skip
    await cluster.tick()

    assert ["p0"] == cluster.evicted
    assert "Job ns/waits" == cluster.decisions()[0].beneficiary


async def test_a_disruption_budget_keeps_a_pod_and_the_next_in_order_goes(cluster):
    cluster.protected.add("p0")
    for _ in range(8):
        if await ask(cluster, "urgent", 1) == "fits":
            break
        await cluster.tick(50)

    assert ["p1"] == cluster.evicted
    assert ("refused", PDB.message) in cluster.outcomes()


async def test_a_pause_holds_it_and_limits_cut_it(cluster):
    paused = PauseChanged(is_paused=True, author="ada", reason="test")
    await cluster.say(paused, "pause")
    await ask(cluster, "urgent", 3)
    await cluster.tick()
    assert [] == cluster.evicted
    await cluster.say(PauseChanged(is_paused=False, author="ada", reason="test"), "resume")
    await ask(cluster, "urgent", 3)
    for _ in range(3):
        await cluster.tick()

    # Two of hundred in five minutes.
    assert ["p0", "p1"] == cluster.evicted


async def test_whose_room_was_made_otherwise_takes_nobodys(cluster):
    await ask(cluster, "urgent", 1)
    await cluster.evict("ns", "p3", uid="uid-p3")
    cluster.evicted.clear()
    await cluster.tick()

    assert [] == cluster.evicted
