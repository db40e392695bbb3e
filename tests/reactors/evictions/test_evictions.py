"""Who has to go, when, and what becomes of it: through runner, interlocks and effector, in memory."""

from collections import Counter
from itertools import pairwise

import msgspec
import pytest

from bus.errors import ClusterUnavailableError
from bus.events.namespaces import NamespaceObserved
from bus.events.pods import PodsListed
from reactors.engine.contract import Trigger
from reactors.engine.verify import rederive
from reactors.evictions import NAME
from reactors.evictions.decide import decide
from reactors.evictions.metrics import figures
from reactors.evictions.reactor import reactor
from reactors.evictions.state import EvictionState
from tests.reactors.cluster import job
from tests.reactors.evictions.scene import CARD, ELASTIC, PDB, QUOTA, Evicting, overuse
from tests.scraping import scraped

pytestmark = pytest.mark.simulated


async def test_the_lowest_priority_goes_first_and_of_these_the_last_started(cluster):
    await overuse(cluster)
    for _ in range(4):
        await cluster.tick()

    assert ["p09", "p06"] == cluster.evicted
    assert {("quota-overused", "q")} == {(d.reason, d.quota) for d in cluster.decisions()}
    first = cluster.decisions()[0]
    assert (first.numbers[f"used_{CARD}"], first.numbers[f"runtime_{CARD}"]) == (12, 10)


async def test_nothing_goes_before_the_delay_is_strictly_over(cluster):
    await overuse(cluster)
    await cluster.tick()
    await cluster.tick()
    await cluster.tick()
    assert [] == cluster.evicted
    await cluster.tick()

    assert 2 == len(cluster.evicted)


async def test_a_moment_within_its_share_begins_the_delay_anew(cluster):
    await overuse(cluster)
    for _ in range(3):
        await cluster.tick()
    for number in range(2):
        await cluster.evict("ns", f"p{number:02}", uid=f"uid-p{number:02}")
    await cluster.tick()
    cluster.evicted.clear()
    for number in range(2):
        await cluster.run_pod(f"again-{number}")
    for _ in range(2):
        await cluster.tick()

    assert [] == cluster.evicted


async def test_what_is_not_preemptible_stays(cluster):
    await overuse(cluster, 10)
    for number in range(2):
        keep = {"quota.scheduling.koordinator.sh/preemptible": "false"}
        await cluster.run_pod(f"kept-{number}", priority=-5, labels=keep)
    for _ in range(4):
        await cluster.tick()

    assert ["p09", "p06"] == cluster.evicted


async def test_nothing_goes_unless_all_quotas_are_monitored(cluster):
    await cluster.policy(monitor_all_quotas=False)
    await overuse(cluster)
    for _ in range(6):
        await cluster.tick()

    assert [] == cluster.decisions()


async def test_when_the_grace_of_a_budget_is_over_all_that_it_pays_for_goes(cluster):
    await cluster.see_paid("team", {"requests.cpu": 9000, f"limits.{CARD}": 4})
    await cluster.run_pod("cheap", quota="team", label=QUOTA, gpu=0)
    await cluster.run_pod("card", quota="team", label=QUOTA, gpu=1)
    await cluster.settled()
    await cluster.judge("team", f"limits.{CARD}", "Exhausted")
    await cluster.tick()
    assert [] == cluster.evicted
    await cluster.judge("team", f"limits.{CARD}", "GraceOver")
    await cluster.tick()

    assert ["card"] == cluster.evicted
    assert [("budget-grace-over", 100, 90)] == [
        (d.reason, d.numbers["spent"], d.numbers["limit"]) for d in cluster.decisions()
    ]


async def test_who_borrowed_gives_back_what_was_refused_to_another_quota(cluster):
    """30 cards: `c` ends its 10, so the share of what was refused to `other` grows beyond the 13 that it wants."""
    await cluster.nodes(30)
    for name, least in (("c", 10), ("q", 0), ("other", 0)):
        await cluster.see_elastic(name, least, 30)
    for number in range(10):
        await cluster.run_pod(f"c{number}", quota="c")
    for number in range(20):
        await cluster.run_pod(f"q{number:02}")
    await cluster.settled()
    made = job("j", 1, "")
    made["metadata"]["labels"] = {ELASTIC: "other"}
    made["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"] = {CARD: "13"}
    assert (await cluster.review(made)).reason == "over-quota"
    for number in range(10):
        await cluster.evict("ns", f"c{number}", uid=f"uid-c{number}")
    cluster.evicted.clear()
    for _ in range(6):
        await cluster.tick(10)

    first = cluster.decisions()[0]
    assert (first.numbers[f"used_{CARD}"], first.numbers[f"runtime_{CARD}"]) == (20, 17)
    assert ["q19", "q18"] == cluster.evicted


async def test_a_new_period_of_the_budget_ends_its_evictions(cluster):
    await cluster.see_paid("team", {f"limits.{CARD}": 4})
    await cluster.run_pod("card", quota="team", label=QUOTA, gpu=1)
    await cluster.settled()
    ends_s = cluster.clock.us // 10**6 + 5
    await cluster.judge("team", f"limits.{CARD}", "GraceOver", period_end_s=ends_s)
    await cluster.tick()

    assert [] == cluster.decisions()


async def test_a_disruption_budget_is_named_and_asked_again_later(cluster):
    await cluster.policy(monitor_all_quotas=True, delay_evict_seconds=200)
    await overuse(cluster, 11)
    cluster.refuses = PDB
    while not cluster.outcomes():
        await cluster.tick()
    assert [("refused", PDB.message)] == cluster.outcomes()
    for name in cluster.pods.keys() - {"p09"}:
        cluster.protected.add(name)
    cluster.refuses = None
    for _ in range(29):
        await cluster.tick()
    assert [] == cluster.evicted
    for _ in range(60):
        await cluster.tick()

    # No workload is tried more than once in five minutes.
    assert ["p09"] == cluster.evicted


async def test_a_pod_that_rests_is_passed_over_and_the_next_in_order_goes(cluster):
    await overuse(cluster, 12)
    cluster.protected |= {"p09", "p03"}
    for _ in range(25):
        await cluster.tick(40)

    assert ["p06", "p00"] == cluster.evicted
    assert {"p09", "p06", "p03", "p00"} == {d.target.name for d in cluster.decisions()}


async def test_pods_that_a_budget_keeps_do_not_take_all_that_the_limits_allow(cluster):
    """Two of hundred may go in five minutes, and these two never can."""
    await cluster.see_paid("team", {f"limits.{CARD}": 4})
    for number in range(4):
        await cluster.run_pod(f"t{number}", quota="team", label=QUOTA, priority=number)
    await cluster.settled()
    cluster.protected |= {"t0", "t1"}
    await cluster.judge("team", f"limits.{CARD}", "GraceOver")
    for _ in range(36):
        await cluster.tick()

    assert ["t2", "t3"] == cluster.evicted


async def test_each_further_refusal_doubles_the_rest_up_to_an_hour(cluster):
    await cluster.see_paid("team", {f"limits.{CARD}": 4})
    await cluster.run_pod("t", quota="team", label=QUOTA)
    await cluster.settled()
    cluster.protected.add("t")
    await cluster.judge("team", f"limits.{CARD}", "GraceOver")
    for _ in range(200):
        await cluster.tick(60)
    at = decided_at(cluster)["t"]

    between = [(after - before) // 10**6 for before, after in pairwise(at)]
    assert [300, 600, 1200, 2400, 3600, 3600] == [one - one % 60 for one in between]


def decided_at(cluster):
    found = {}
    for decision in cluster.decisions():
        found.setdefault(decision.target.name, []).append(decision.at_us)
    return found


async def test_every_eviction_follows_from_the_history(cluster):
    await overuse(cluster)
    for _ in range(6):
        await cluster.tick()
    found = rederive(lambda: cluster.transport.events, (reactor,), "c1")

    assert cluster.evicted
    assert (2, ()) == (found.same, found.mismatches)


async def test_metrics_count_evictions_by_reason_and_by_what_became_of_them(cluster):
    await overuse(cluster)
    for _ in range(6):
        await cluster.tick()
    found = scraped(figures(cluster.runner.replica))

    assert found['bursar_evictions_total{reason="quota-overused",result="done"}'] == 2


@pytest.mark.parametrize("taken", ["the rule", "the budget"])
async def test_nobody_goes_for_a_budget_whose_owner_takes_the_rule_or_the_budget_back(
    cluster, taken
):
    """Though nothing was judged since; what was decided before is not done either."""
    await cluster.see_paid("team", {f"limits.{CARD}": 4})
    for name in ("a", "b"):
        await cluster.run_pod(name, quota="team", label=QUOTA)
    await cluster.settled()
    await cluster.judge("team", f"limits.{CARD}", "GraceOver")
    cluster.refuses = ClusterUnavailableError(status=503, message="down")
    await cluster.tick()
    assert 2 == len(cluster.decisions())
    cluster.refuses = None
    if taken == "the rule":
        await cluster.see_paid("team", {f"limits.{CARD}": 4}, exhaustion="DenyNew")
    else:
        await cluster.see_quota("team", {f"limits.{CARD}": 4})
    await cluster.settled()
    await cluster.deciding.read()
    cluster.runner._again_at.clear()
    for _ in range(3):
        await cluster.tick()

    assert [] == cluster.evicted
    assert {("stale", "budget_renewed")} == set(cluster.outcomes())
    assert 2 == len(cluster.decisions())


async def test_an_observation_that_comes_after_the_end_of_its_pod_brings_nothing_back(cluster):
    """Neither before a complete list nor after it."""
    await overuse(cluster, 10)
    late = next(e for e in cluster.transport.events if e.key == "uid-p00")
    await cluster.evict("ns", "p00", uid="uid-p00")
    await cluster.transport.publish([msgspec.structs.replace(late, id="late")])
    await cluster.settled()
    await cluster.deciding.read()
    view = cluster.runner.replica.states["evictions"]
    assert view.pod("uid-p00") is None
    cluster.clock.after(1)
    listed = PodsListed(resource_version="999999", uids=tuple(sorted(cluster.pods.values())))
    await cluster.say(listed, "999999-1")
    later = msgspec.structs.replace(late, id="later", time_us=cluster.clock.us + 10**6)
    await cluster.transport.publish([later])
    await cluster.deciding.read()

    assert view.pod("uid-p00") is None
    assert len(cluster.pods) == view.bound


async def test_a_budgets_quota_of_the_same_name_does_not_stand_in_for_the_elastic_one():
    async with Evicting() as cluster:
        await cluster.see_quota("q", {"limits.cpu": 1000})
        await cluster.nodes(20)
        for name in ("q", "other"):
            await cluster.see_elastic(name, 10, 20)
        await cluster.policy(monitor_all_quotas=True, delay_evict_seconds=20)
        for number in range(100):
            await cluster.run_pod(f"else-{number}", quota="nobody", gpu=0)
        await overuse(cluster)
        for _ in range(4):
            await cluster.tick()

        assert ["p09", "p06"] == cluster.evicted


async def test_however_many_quotas_give_back_each_pod_is_placed_once_until_owners_or_quotas_change(
    monkeypatch,
):
    placed = Counter()
    true = EvictionState.place

    def place(view, fact):
        placed[fact.uid] += 1
        return true(view, fact)

    async with Evicting() as cluster:
        await cluster.nodes(100)
        for number in range(5):
            await cluster.see_paid(f"paid-{number}", {"limits.cpu": 1000})
            await cluster.judge(f"paid-{number}", "limits.cpu", "GraceOver")
            await cluster.see_elastic(f"q-{number}", 1, 1)
            for pod in range(3):
                await cluster.run_pod(f"p-{number}-{pod}", quota=f"q-{number}")
        await cluster.policy("shadow", monitor_all_quotas=True, delay_evict_seconds=0)
        await cluster.tick()
        # A new quota may be anybody's.
        await cluster.see_elastic("late", 1, 1)
        await cluster.deciding.read()
        replica = cluster.runner.replica
        trigger = Trigger(10**6, cluster.clock.us + 10**9, None)
        monkeypatch.setattr(EvictionState, "place", place)
        replica.states[NAME].shadowed.clear()
        policy = replica.policies.of(NAME).policy
        drafts = decide(replica.states[NAME], trigger, policy)
        assert drafts == decide(replica.states[NAME], trigger, policy)

    assert {"quota-overused"} == {draft.reason for draft in drafts}
    assert (15, {1}) == (len(placed), set(placed.values()))


async def test_whose_a_pod_is_changes_with_its_own_labels_its_namespace_and_the_quotas(cluster):
    async def where():
        await cluster.tick()
        found = cluster.runner.replica.states[NAME].placed()
        return {quota for (_, quota), pods in found.items() if "p" in [pod.name for pod in pods]}

    await cluster.run_pod("p", quota="q")
    assert await where() == {"q"}
    await cluster.run_pod("p", quota="other")
    assert await where() == {"other"}
    await cluster.run_pod("p", quota="", label="app")
    assert await where() == set()
    await cluster.see_quota("team", {}, namespaces=("ns",))
    mapped = NamespaceObserved(uid="ns", name="ns", resource_version="7", labels={QUOTA: "team"})
    await cluster.say(mapped, "ns")
    assert await where() == {"team"}


async def test_while_no_budget_is_spent_and_nobody_monitors_no_pod_is_placed(cluster, monkeypatch):
    await cluster.policy("shadow")
    await overuse(cluster)

    def place(view, fact):
        raise AssertionError("placed")

    monkeypatch.setattr(EvictionState, "place", place)
    await cluster.tick()
    assert {} == cluster.runner.replica.states[NAME].watches


async def test_what_begins_to_be_monitored_gets_its_whole_delay(cluster):
    await cluster.policy(monitor_all_quotas=False)
    await overuse(cluster)
    for _ in range(4):
        await cluster.tick()
    await cluster.policy(monitor_all_quotas=True, delay_evict_seconds=20)
    await cluster.tick()

    assert [] == cluster.evicted
    for _ in range(3):
        await cluster.tick()
    assert ["p09", "p06"] == cluster.evicted
