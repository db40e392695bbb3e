"""Shadow mode names the victims that would go, at the pace at which they would, and touches nothing."""

import pytest

from tests.reactors.evictions.scene import CARD, QUOTA, overuse

pytestmark = pytest.mark.simulated


async def test_shadow_mode_names_the_same_victims_and_touches_nothing(cluster):
    await cluster.policy("shadow", monitor_all_quotas=True, delay_evict_seconds=20)
    await overuse(cluster)
    for _ in range(4):
        await cluster.tick()

    assert ["p09", "p06"] == [d.target.name for d in cluster.decisions()]
    assert [] == cluster.evicted


async def test_a_shadow_names_each_of_all_victims_once_at_the_same_pace(cluster):
    """Two of hundred may go in five minutes, and six have to."""
    policy = {"monitor_all_quotas": True, "delay_evict_seconds": 20}
    await cluster.policy("shadow", **policy)
    await overuse(cluster, 16)
    for _ in range(30):
        await cluster.tick(50)
    shadow = cluster.decisions()
    assert [] == cluster.evicted
    await cluster.policy("on", **policy)
    for _ in range(30):
        await cluster.tick(50)
    done = cluster.decisions()[len(shadow) :]

    assert ["p15", "p12", "p09", "p06", "p03", "p00"] == cluster.evicted
    assert [d.target for d in shadow] == [d.target for d in done]
    assert all(one.is_shadow for one in shadow) and not any(one.is_shadow for one in done)
    assert spans(shadow) == spans(done)


async def test_a_shadow_names_them_anew_when_the_quota_was_within_its_share_or_the_policy_changes(
    cluster,
):
    policy = {"monitor_all_quotas": True, "delay_evict_seconds": 20}
    await cluster.policy("shadow", **policy)
    await overuse(cluster, 11)
    for _ in range(10):
        await cluster.tick(50)
    assert ["p09"] == [d.target.name for d in cluster.decisions()]
    await cluster.nodes(40)
    await cluster.tick()
    await cluster.nodes(20)
    for _ in range(10):
        await cluster.tick(50)
    assert ["p09", "p09"] == [d.target.name for d in cluster.decisions()]
    await cluster.policy("shadow", **policy | {"delay_evict_seconds": 30})
    for _ in range(10):
        await cluster.tick(50)

    assert ["p09", "p09", "p09"] == [d.target.name for d in cluster.decisions()]


async def test_a_shadow_names_them_anew_when_the_next_budget_is_spent(cluster):
    await cluster.policy("shadow")
    await cluster.see_paid("team", {f"limits.{CARD}": 4})
    await cluster.run_pod("card", quota="team", label=QUOTA)
    await cluster.settled()
    for phase in ("GraceOver", "GraceOver", "Ok", "GraceOver"):
        await cluster.judge("team", f"limits.{CARD}", phase)
        for _ in range(10):
            await cluster.tick(50)

    assert ["card", "card"] == [d.target.name for d in cluster.decisions()]


def spans(decisions):
    """Seconds from the first decision to each."""
    return [(one.at_us - decisions[0].at_us) // 10**6 for one in decisions]
