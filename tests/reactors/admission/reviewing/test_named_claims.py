"""Claims that a tenant makes, names in pods, and gives away: each is charged to a quota, or what names it is refused."""

import pytest

from bus.events.devices import DeviceAsk
from tests.reactors.admission.below import CONTROLLER, OF, made, owner
from tests.reactors.admission.reviewing.claimed import (
    CARDS,
    DEVICES,
    GPU,
    HARD,
    OF_CLAIM,
    Devices,
    claim,
    map_namespace,
)
from tests.reactors.cluster import QUOTA

pytestmark = pytest.mark.simulated


@pytest.fixture
async def cluster():
    async with Devices() as running:
        await running.see_quota("team", HARD)
        await running.see_slice("gpu-0", "gpu-1")
        yield running


def naming(item, name="c"):
    spec = item["spec"].get("template", item)["spec"]
    spec["resourceClaims"] = [{"name": "g", "resourceClaimName": name}]
    return item


def forged(uid, count):
    reference = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "p", "controller": True}
    notes = {"resource.kubernetes.io/pod-claim-name": "g"}
    return claim(uid, count, annotations=notes, ownerReferences=[reference])


async def test_a_claim_is_not_given_to_a_pod_after_it_was_made(cluster):
    await map_namespace(cluster)
    change = {**OF_CLAIM, "operation": "UPDATE"}

    refused = await cluster.review(forged("c", 8), **change, old_object=claim("c", 8))
    assert (refused.allowed, refused.reason) == (False, "claim-forged")
    assert (await cluster.review(forged("c", 8), **change, old_object=forged("c", 8))).allowed
    assert (
        await cluster.review(forged("c", 8), **change, **CONTROLLER, old_object=claim("c", 8))
    ).allowed
    assert (await cluster.review(claim("c", 8), **change, old_object=claim("c", 8))).allowed
    assert cluster.held(DEVICES) == (0,)


async def test_the_claim_that_kubernetes_made_for_a_pod_stays_that_pods(cluster):
    """Given to a pod that has ended, or to nobody, its devices would be charged to nobody."""
    await map_namespace(cluster)
    change = {**OF_CLAIM, "operation": "UPDATE", "old_object": forged("c", 8)}
    other = forged("c", 8)
    other["metadata"]["ownerReferences"][0]["uid"] = "ended"

    for changed in (other, claim("c", 8)):
        refused = await cluster.review(changed, **change)
        assert (refused.allowed, refused.reason) == (False, "claim-forged")
        assert (await cluster.review(changed, **change, **CONTROLLER)).allowed


@pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
async def test_a_claim_for_a_pod_without_a_quota_is_not_forged(cluster, operation):
    """Restores and schedulers of their own make such claims, too."""
    of = {**OF_CLAIM, "operation": operation, "old_object": claim("c", 9)}
    assert (await cluster.review(forged("c", 9), **of)).reason == "not-governed"
    await cluster.see_pod("p", 1, labels={})
    assert (await cluster.review(forged("c", 9), **of)).reason == "not-governed"
    await cluster.see_pod("other", 1, labels={}, owner=owner("Job", "a"))
    assert (await cluster.review(forged("c", 9), **of)).reason == "not-governed"
    assert cluster.held(DEVICES) == (0,)


@pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
async def test_a_claim_for_a_pod_in_a_quota_is_forged_wherever_it_is_made(cluster, operation):
    of = {**OF_CLAIM, "operation": operation, "old_object": claim("c", 9)}
    await cluster.see_pod("p", 1)
    assert (await cluster.review(forged("c", 9), **of)).reason == "claim-forged"


async def test_a_claim_for_a_pod_below_a_job_in_a_quota_is_forged(cluster):
    assert (await cluster.review(made("Job", "a", 1))).allowed
    await cluster.see_pod("p", 1, labels={}, owner=owner("Job", "a"))
    assert (await cluster.review(forged("c", 9), **OF_CLAIM)).reason == "claim-forged"


async def test_a_claim_for_an_unseen_pod_is_forged_where_anything_is_charged(cluster):
    await cluster.see_pod("other", 1)
    assert (await cluster.review(forged("c", 9), **OF_CLAIM)).reason == "claim-forged"


async def test_a_claim_that_names_a_quota_is_forged(cluster):
    found = forged("c", 9)
    found["metadata"]["labels"] = {QUOTA: "team"}
    assert (await cluster.review(found, **OF_CLAIM)).reason == "claim-forged"


@pytest.mark.parametrize("kind", ["Pod", "Job"])
async def test_nobody_names_a_claim_that_no_quota_charges(cluster, kind):
    """Where workloads name the quota and the namespace does not."""
    await cluster.see_quota("cores", {"limits.cpu": 10_000})
    assert (await cluster.review(claim("c", 80), **OF_CLAIM)).reason == "not-governed"
    await cluster.see_claim("c", DeviceAsk(GPU, count=80))

    for name in ("c", "later"):
        refused = await cluster.review(naming(made(kind, "a", 1), name), **OF[kind])
        assert (refused.allowed, refused.reason) == (False, "claim-uncharged")
        assert f"give the claim, or its namespace, the label {QUOTA}" in refused.message
    assert (await cluster.review(naming(made(kind, "b", 1, quota="cores")), **OF[kind])).allowed
    await map_namespace(cluster)
    assert (await cluster.review(naming(made(kind, "a", 1)), **OF[kind])).allowed


async def test_an_update_that_names_a_claim_is_asked_like_a_create(cluster):
    await cluster.see_claim("c", DeviceAsk(GPU, count=80))
    plain, changed = made("Job", "a", 1), naming(made("Job", "a", 1))
    assert (await cluster.review(plain)).allowed

    change = {"operation": "UPDATE", "old_object": plain}
    assert (await cluster.review(changed, **change)).reason == "claim-uncharged"
    assert (await cluster.review(changed, operation="UPDATE", old_object=changed)).allowed
    elsewhere = naming(made("Job", "a", 1, quota=""))
    change = {"operation": "UPDATE", "old_object": elsewhere}
    assert (await cluster.review(changed, **change)).reason == "claim-uncharged"


async def test_a_claim_is_charged_to_the_quota_and_the_model_that_it_names(cluster):
    await cluster.see_quota("typed", {f"{DEVICES}.A100": 4})
    labels = {QUOTA: "typed", f"{QUOTA}/gpu-type": "A100"}

    assert not (await cluster.review(claim("c", 5, labels=labels), **OF_CLAIM)).allowed
    assert (await cluster.review(claim("c", 4, labels=labels), **OF_CLAIM)).allowed
    await cluster.see_claim("c", DeviceAsk(GPU, count=4), labels=labels)
    assert cluster.used("typed", f"{DEVICES}.A100") == 4
    assert (await cluster.review(naming(made("Pod", "p", 1)), **OF["Pod"])).allowed
    assert cluster.held(DEVICES, CARDS) == (0, 0)


async def test_a_claim_is_moved_to_another_quota_only_where_it_fits_and_to_none_never(cluster):
    await cluster.see_quota("small", {DEVICES: 1})
    whose = [claim("c", 4, labels={QUOTA: name}) for name in ("team", "small")]
    assert (await cluster.review(whose[0], **OF_CLAIM)).allowed

    change = {**OF_CLAIM, "operation": "UPDATE", "old_object": whose[0]}
    assert (await cluster.review(whose[1], **change)).reason == "over-quota"
    assert (await cluster.review(claim("c", 4), **change)).reason == "claim-uncharged"
