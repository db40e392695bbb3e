"""Devices by claim: quotas hold what templates, claims and extended resources ask for, whoever tries to get around that."""

import pytest

from bus.events.devices import DeviceAsk
from bus.kube.watch.labels import LabelPolicy
from bus.kube.watch.records import Record
from bus.sources import devices, partial_claims
from projections.engine.reading import fact_in
from tests.bus.kube.watch.odd_bytes import ODD, written
from tests.reactors.admission.below import CONTROLLER, OF, made
from tests.reactors.admission.reviewing.claimed import (
    CARDS,
    DEVICES,
    GPU,
    HARD,
    MEMORY,
    OF_CLAIM,
    OF_TEMPLATE,
    Devices,
    claim,
    map_namespace,
    of,
    template,
)
from tests.reactors.cluster import QUOTA

pytestmark = pytest.mark.simulated


@pytest.fixture
async def cluster():
    async with Devices() as running:
        await running.see_quota("team", HARD)
        await running.see_slice("gpu-0", "gpu-1")
        yield running


async def test_a_job_asks_for_the_devices_of_its_template_for_each_pod(cluster):
    await cluster.see_template("two", DeviceAsk(GPU, count=2))

    assert (await cluster.review(of(made("Job", "a", 1, 3), "two"))).allowed
    assert cluster.held() == (6, 6, 6 * 2**30)
    refused = await cluster.review(of(made("Job", "b", 1, 2), "two"))
    assert (refused.allowed, refused.reason) == (False, "over-quota")
    assert f"{DEVICES} asks for 4 more, 6 of 8 are used" in refused.message
    assert (await cluster.review(of(made("Pod", "p", 1), "two"), **OF["Pod"])).allowed
    assert cluster.held() == (8, 8, 8 * 2**30)


@pytest.mark.parametrize(
    ("ask", "expected"),
    [
        ((DeviceAsk(GPU, mode="All"),), 32),
        ((DeviceAsk(GPU, count=1), DeviceAsk(GPU, count=3)), 3),
        ((DeviceAsk(GPU, is_admin=True),), 0),
        ((DeviceAsk(GPU, count=2**31),), 32),
    ],
)
async def test_what_is_not_known_yet_counts_as_the_most_that_may_be_given(cluster, ask, expected):
    await cluster.see_quota("large", {DEVICES: 2**40})
    await cluster.see_template("t", *ask)
    answer = await cluster.review(of(made("Job", "a", 1, quota="large"), "t"))

    assert answer.allowed
    assert cluster.used("large", DEVICES) == expected


async def test_of_a_list_by_priority_each_key_counts_its_largest(cluster):
    await cluster.see_template("t", DeviceAsk(GPU), DeviceAsk("nic", count=4))

    assert (await cluster.review(of(made("Job", "a", 1, 2), "t"))).allowed
    assert cluster.held(DEVICES, "limits.dra/nic", CARDS) == (2, 8, 2)


async def test_a_template_that_was_not_seen_is_refused_where_devices_are_limited(cluster):
    await cluster.see_quota("cores", {"limits.cpu": 10_000})
    refused = await cluster.review(of(made("Job", "a", 1), "later"))

    assert (refused.allowed, refused.reason) == (False, "claims-unseen")
    assert "Make the ResourceClaimTemplate first" in refused.message
    assert (await cluster.review(of(made("Job", "c", 1, quota="cores"), "later"))).allowed
    await cluster.see_template("later", DeviceAsk(GPU))
    assert (await cluster.review(of(made("Job", "a", 1), "later"))).allowed


async def test_no_template_is_made_again_larger_below_what_was_charged_for_less(cluster):
    await cluster.see_template("t", DeviceAsk(GPU, count=2))
    assert (await cluster.review(of(made("Job", "a", 1), "t"))).allowed
    await cluster.see_job("a", "t")

    assert (await cluster.review(template("t", 2), **OF_TEMPLATE)).allowed
    refused = await cluster.review(template("t", 3), **OF_TEMPLATE)
    assert (refused.allowed, refused.reason) == (False, "template-in-use")
    assert refused.message.startswith(
        "Job 'a' names this template, and was not charged for as much"
    )
    assert (await cluster.review(template("u", 3), **OF_TEMPLATE)).allowed


async def test_no_template_is_made_again_larger_before_a_pod_has_its_claim(cluster):
    await cluster.see_template("t", DeviceAsk(GPU))
    assert (await cluster.review(of(made("Pod", "p", 1), "t"), **OF["Pod"])).allowed
    await cluster.see_pod("p", 1, phase="Pending", claim_templates=("t",))
    await cluster.lose_template("t")

    assert not (await cluster.review(template("t", 3), **OF_TEMPLATE)).allowed
    await cluster.see_claim("p-g", DeviceAsk(GPU), pod="p")
    assert (await cluster.review(template("t", 3), **OF_TEMPLATE)).allowed


async def test_what_is_made_again_larger_while_nobody_asks_is_charged_when_it_is_seen(cluster):
    await cluster.see_template("t", DeviceAsk(GPU))
    assert (await cluster.review(of(made("Job", "a", 1), "t"))).allowed
    await cluster.see_job("a", "t")
    await cluster.lose_template("t")
    await cluster.see_template("t", DeviceAsk(GPU, count=9), uid="again")

    assert cluster.held(DEVICES) == (9,)
    assert not (await cluster.review(of(made("Job", "b", 1), "t"))).allowed


async def test_a_pod_of_an_owner_asks_for_its_devices_within_the_charge_of_that(cluster):
    await cluster.see_template("one", DeviceAsk(GPU))
    await cluster.see_template("nine", DeviceAsk(GPU, count=9))
    assert (await cluster.review(of(made("Job", "a", 1), "one"))).allowed
    await cluster.see_job("a", "one")

    def pod(uid, name):
        return of(made("Pod", uid, 1, by=("Job", "a"), quota=""), name)

    assert (await cluster.review(pod("p", "one"), **OF["Pod"], **CONTROLLER)).allowed
    assert not (await cluster.review(pod("q", "nine"), **OF["Pod"], **CONTROLLER)).allowed
    assert cluster.held(DEVICES) == (1,)


async def test_a_pod_holds_what_it_was_given_once_that_is_seen(cluster):
    await cluster.see_template("all", DeviceAsk(GPU, mode="All"))
    await cluster.see_quota("team", {**HARD, DEVICES: 40, CARDS: 40, MEMORY: 2**40})
    assert (await cluster.review(of(made("Pod", "p", 1), "all"), **OF["Pod"])).allowed
    await cluster.see_pod("p", 1, claim_templates=("all",))
    assert cluster.held() == (32, 32, 32 * 2**30)

    await cluster.see_claim("p-g", DeviceAsk(GPU, mode="All"), pod="p", given=("gpu-0", "gpu-1"))

    assert cluster.held() == (2, 2, 2 * 2**30)


async def test_a_claim_that_no_pod_owns_counts_in_the_quota_of_its_namespace(cluster):
    """Once, whichever pods use it, and for as long as it exists."""
    await map_namespace(cluster)
    assert (await cluster.review(claim("c", 6), **OF_CLAIM)).allowed
    await cluster.see_claim("c", DeviceAsk(GPU, count=6))
    for uid in ("p", "q"):
        pod = made("Pod", uid, 1)
        pod["spec"]["resourceClaims"] = [{"name": "g", "resourceClaimName": "c"}]
        assert (await cluster.review(pod, **OF["Pod"])).allowed
        await cluster.see_pod(uid, 1, claims=("c",))
    assert cluster.held(DEVICES, CARDS) == (6, 6)

    assert not (await cluster.review(claim("d", 3), **OF_CLAIM)).allowed
    await cluster.see_claim("c", DeviceAsk(GPU, count=6), gone=True)
    assert cluster.held(DEVICES, CARDS) == (0, 0)
    assert (await cluster.review(claim("d", 3), **OF_CLAIM)).allowed


async def test_a_claim_that_was_there_before_anybody_asked_is_charged(cluster):
    await map_namespace(cluster)
    await cluster.see_claim("c", DeviceAsk(GPU, count=5))
    assert cluster.held(DEVICES) == (5,)

    await cluster.see_claim("c", DeviceAsk(GPU, count=5), given=("gpu-0",))
    assert cluster.held(DEVICES) == (1,)
    await cluster.list(kind="ResourceClaim", at_us=cluster.clock.us + 1)
    await cluster.list_pods()
    assert "c" not in cluster.admission.view.objects


@pytest.mark.parametrize(
    ("translate", "count", "charged"),
    [(devices.translate_claim, 5, 5), (partial_claims.translate_claim, "@", 32)],
    ids=["in parameters", "in a count"],
)
@pytest.mark.parametrize("odd", ["lone surrogate", "doubled key", "invalid UTF-8", "5,000 arrays"])
async def test_the_charge_of_a_claim_with_odd_bytes_comes_and_goes(
    cluster, odd, translate, count, charged
):
    """Its review may have had no answer, so that it is charged where it is seen."""
    await map_namespace(cluster)
    await cluster.see_claim("other", DeviceAsk(GPU))
    for change, held in (("ADDED", charged + 1), ("DELETED", 1)):
        thing = claim("c", count, resourceVersion=cluster.version())
        thing["spec"]["devices"]["config"] = [{"opaque": {"driver": "d", "parameters": "@"}}]
        raw = written(thing, ODD[odd])
        record = Record(change, raw, cluster.clock.us, "c1", "kube/resourceclaims")
        await cluster.transport.publish([translate(record, LabelPolicy())])
        await cluster.settled()

        assert cluster.held(DEVICES, CARDS) == (held, held)


@pytest.mark.parametrize("name", ["pod-claim-name", "extended-resource-claim"])
async def test_a_user_makes_no_claim_in_the_name_of_kubernetes(cluster, name):
    await map_namespace(cluster)
    reference = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "p", "controller": True}
    notes = {f"resource.kubernetes.io/{name}": "g"}
    forged = claim("c", 9, annotations=notes, ownerReferences=[reference])

    refused = await cluster.review(forged, **OF_CLAIM)
    assert (refused.allowed, refused.reason) == (False, "claim-forged")
    assert (await cluster.review(forged, **OF_CLAIM, **CONTROLLER)).reason == "covered"
    assert (await cluster.review(forged, **OF_CLAIM, user="system:kube-scheduler")).allowed
    assert (await cluster.review(claim("d", 1, annotations=notes), **OF_CLAIM)).allowed


async def test_a_resource_that_a_class_serves_counts_as_devices_of_it_too(cluster):
    pod = made("Pod", "p", 1)
    pod["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = "3"
    await cluster.see_class(GPU, "nvidia.com/gpu")

    assert (await cluster.review(pod, **OF["Pod"])).allowed
    assert cluster.held() == (3, 3, 3 * 2**30)


async def test_a_resource_named_after_a_class_counts_as_cards_where_it_gives_cards(cluster):
    pod = made("Pod", "p", 1)
    name = f"deviceclass.resource.kubernetes.io/{GPU}"
    pod["spec"]["containers"][0]["resources"]["limits"][name] = "2"

    assert (await cluster.review(pod, **OF["Pod"])).allowed
    assert cluster.held() == (2, 2, 2 * 2**30)


async def test_a_class_gives_cards_once_a_claim_of_it_was_given_one(cluster):
    await map_namespace(cluster)
    await cluster.see_template("t", DeviceAsk("fast", count=2))
    assert (await cluster.review(of(made("Job", "a", 1), "t"))).allowed
    await cluster.see_job("a", "t")
    assert cluster.held("limits.dra/fast", CARDS) == (2, 0)

    await cluster.see_claim("c", DeviceAsk("fast"), given=("gpu-0",))
    assert cluster.held("limits.dra/fast", CARDS) == (3, 3)


async def test_devices_count_by_the_model_that_the_workload_names(cluster):
    await cluster.see_quota("typed", {f"{DEVICES}.A100": 1, f"{MEMORY}.A100": 2**31})
    await cluster.see_template("t", DeviceAsk(GPU))
    job = of(made("Job", "a", 1, quota="typed"), "t")
    job["metadata"]["labels"][f"{QUOTA}/gpu-type"] = "A100"

    assert (await cluster.review(job)).allowed
    assert cluster.used("typed", f"{DEVICES}.A100") == 1
    assert cluster.used("typed", f"{MEMORY}.A100") == 2**30
    # A class of that name would be another one.
    assert cluster.used("typed", "limits.dra/gpu") == 0


async def test_an_elastic_quota_may_use_the_devices_that_slices_offer(cluster):
    await cluster.see_quota(
        "e", {}, kind="ElasticQuota", namespace="quotas", min={f"dra/{GPU}": 1},
        max={f"dra/{GPU}": 4}, weight={f"dra/{GPU}": 1},
    )  # fmt: skip
    await cluster.see_template("t", DeviceAsk(GPU))
    job = of(made("Job", "a", 1, 3, quota=""), "t")
    job["metadata"]["labels"] = {"quota.scheduling.koordinator.sh/name": "e"}

    # Two are offered.
    assert not (await cluster.review(job)).allowed
    job["spec"]["parallelism"] = 2
    assert (await cluster.review(job)).allowed


async def test_an_elastic_quota_divides_a_card_once_whatever_its_parts_and_plugins(cluster):
    """A card of 80 GiB that may be given whole or in eight parts, and that a device plugin offers, too."""
    keys = {f"dra/{GPU}": 99, "gpu-memory": 2**40, "nvidia.com/gpu": 99}
    await cluster.see_quota(
        "e", {}, kind="ElasticQuota", namespace="quotas", min=keys, max=keys, weight=keys
    )
    counters = {"set": {"memory": "80Gi"}}
    await cluster.see_slice(parts=("80Gi", *["10Gi"] * 8), counters=counters)
    await cluster.see_node("n1", "n1", allocatable={"nvidia.com/gpu": "1"})

    tree = next(one for one in cluster.admission.journals.trees.values() if one.total)
    shown = {key: tree.total[key] for key in keys}
    assert shown == {f"dra/{GPU}": 8, "gpu-memory": 80 * 2**30, "nvidia.com/gpu": 1}


async def test_cards_are_refused_where_their_memory_is_limited_and_unknown():
    async with Devices() as cluster:
        await cluster.see_quota("team", {MEMORY: 8 * 2**30})
        await cluster.see_template("t", DeviceAsk(GPU, count=2))
        refused = await cluster.review(of(made("Job", "a", 1), "t"))
        assert (refused.allowed, refused.reason) == (False, "memory-unseen")
        assert "no ResourceSlice of a GPU driver was seen yet" in refused.message

        await cluster.see_slice("gpu-0")
        assert (await cluster.review(of(made("Job", "a", 1), "t"))).allowed
        assert cluster.held(MEMORY) == (2 * 2**30,)


async def test_a_refusal_says_no_more_than_any_database_holds(cluster):
    """However much exists already."""
    await cluster.see_slice("gpu-0", memory="80Gi")
    await cluster.see_template("t", DeviceAsk(GPU, count=2**31))
    for name in "abc":
        await cluster.see_job(name, "t", pods=2**24)
    assert cluster.held(MEMORY)[0] > 2**63

    refused = await cluster.review(of(made("Job", "d", 1), "t"))
    assert refused.reason == "over-quota"
    for event in cluster.transport.events:
        fact_in(event)
