"""Elastic quotas at the webhook: what a quota may use follows from what all ask and what the nodes have."""

import pytest

from bus.events.nodes import NodeObserved
from tests.reactors.cluster import Cluster, job

pytestmark = pytest.mark.simulated

NAME = "quota.scheduling.koordinator.sh/name"
#: Counted in whole units, as the article's amounts are.
CARD = "nvidia.com/gpu"


@pytest.fixture
async def cluster():
    async with Cluster() as running:
        for name, least, weight in (("a", 10, 40), ("b", 15, 60), ("c", 20, 50), ("d", 15, 80)):
            await running.see_quota(
                name, {}, kind="ElasticQuota", namespace="quotas", min={CARD: least},
                max={CARD: 100}, weight={CARD: weight},
            )  # fmt: skip
        node = NodeObserved(
            uid="n", name="n", resource_version="1", allocatable={CARD: "100", "cpu": "100"}
        )
        await running.say(node, "n")
        yield running


async def ask(cluster, quota, uid, cards):
    made = job(uid, 1, "")
    container = made["spec"]["template"]["spec"]["containers"][0]
    container["resources"]["limits"] = {CARD: str(cards)}
    made["metadata"]["labels"] = {NAME: quota}
    return await cluster.review(made)


def runtime(cluster):
    elastic = cluster.admission.journals.trees["elastic/"].elastic
    return {name: elastic.runtime(name)[CARD] for name in "abcd"}


async def test_what_a_to_d_ask_is_divided_into_5_20_35_and_40(cluster):
    """The article's example: 100 cards; A asks for 5, B for 20, C for 40, D for 70."""
    for quota, cpu in (("a", 5), ("b", 20), ("c", 40)):
        assert (await ask(cluster, quota, quota, cpu)).allowed
    admitted = 0
    for number in range(70):
        admitted += (await ask(cluster, "d", f"d{number}", 1)).allowed

    assert admitted == 40
    assert runtime(cluster) == {"a": 5, "b": 20, "c": 35, "d": 40}


async def test_a_quota_borrows_what_others_do_not_ask_for(cluster):
    assert (await ask(cluster, "d", "d1", 70)).allowed
    answer = await ask(cluster, "d", "d2", 31)

    assert answer.reason == "over-quota"
    assert "31 more, 70 of 100 are used, 1 too much" in answer.message


async def test_less_capacity_is_less_to_use(cluster):
    half = NodeObserved(uid="n", name="n", resource_version="2", allocatable={CARD: "50"})
    await cluster.say(half, "n")

    assert not (await ask(cluster, "d", "d1", 51)).allowed
    assert (await ask(cluster, "d", "d2", 50)).allowed


async def test_a_business_quota_with_elastic_fields_is_held_to_both(cluster):
    await cluster.see_quota(
        "team", {"requests.cpu": 60_000}, min={"cpu": 10_000}, max={"cpu": 200_000}
    )
    await cluster.settled()

    assert not (await cluster.ask("x", 61)).allowed
    assert (await cluster.ask("y", 60)).allowed


async def test_an_elastic_quota_is_judged_by_koordinators_rules(cluster):
    quota = {
        "metadata": {
            "name": "e", "namespace": "quotas", "uid": "uid-e",
            "labels": {"quota.scheduling.koordinator.sh/parent": "a"},
        },
        "spec": {"min": {"cpu": "1"}, "max": {"cpu": "2"}},
    }  # fmt: skip
    of_quota = {
        "group": "scheduling.sigs.k8s.io", "version": "v1alpha1", "resource": "elasticquotas",
        "kind": "ElasticQuota",
    }  # fmt: skip
    answer = await cluster.review(quota, **of_quota)

    assert answer.reason == "parent-is-not-a-parent-quota"
    quota["metadata"]["labels"] = {}
    quota["spec"]["min"] = {"cpu": "3"}
    answer = await cluster.review(quota, **of_quota)
    assert answer.message == "min over max: cpu (min-over-max)"
