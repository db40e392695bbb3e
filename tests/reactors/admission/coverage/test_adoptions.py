"""What an owner adopts has to fit its charge, with all that lives below it, whoever had it before."""

import pytest

from bus.clock import SECOND_US
from tests.reactors.admission.below import CONTROLLER, OF, ask, begin, deployed, made, show
from tests.reactors.cluster import QUOTA, Cluster

pytestmark = pytest.mark.simulated

GC = CONTROLLER | {"user": "system:serviceaccount:kube-system:generic-garbage-collector"}
FULL = {"labels": {QUOTA: "full"}}


@pytest.fixture
async def cluster():
    async with Cluster() as running:
        await running.see_quota("team", {"limits.cpu": 20_000})
        await running.see_quota("full", {"limits.cpu": 5000})
        running.skip_versions(600)
        yield running


async def adopt(cluster, kind, *size, by, was=None, **fields):
    before = made(kind, *size, by=was, version=500)
    return await ask(cluster, kind, *size, by=by, before=before, version=500, **fields)


@pytest.mark.parametrize("replicas", [2, 0], ids=["asked for", "live"])
async def test_a_replica_set_that_a_deployment_adopts_has_to_fit_the_quota_of_that(
    cluster, replicas
):
    """It asked for nothing new, so it passed: a set of one quota ran on in another that was full."""
    await begin(cluster, "ReplicaSet", "set", 4, replicas)
    for number in range(2):
        await show(cluster, "Pod", f"p{number}", 4, by=("ReplicaSet", "set"))
    assert (await ask(cluster, "Deployment", "web", 1, 1, quota="full")).allowed
    await show(cluster, "Deployment", "web", 1, 1, **FULL)
    how = {"by": ("Deployment", "web"), "user": CONTROLLER}

    for _ in range(2):
        assert (
            await adopt(cluster, "ReplicaSet", "set", 4, replicas, **how)
        ).reason == "over-quota"
    assert (cluster.used("full"), cluster.used()) == (1000, 8000)
    await cluster.see_quota("full", {"limits.cpu": 8000})
    assert (await adopt(cluster, "ReplicaSet", "set", 4, replicas, **how)).reason == "raised"
    assert cluster.used("full") == 8000


async def test_a_pod_that_is_given_to_the_owner_of_another_operator_has_to_fit_its_charge(cluster):
    """Such controllers run under any account, so any user may write this: it counted where it had been."""
    await cluster.see_quota("full", {"limits.cpu": 4000})
    await begin(cluster, "Job", "night", 4)
    await begin(cluster, "Pod", "p", 4, by=("Job", "night"), user=CONTROLLER)
    assert (await ask(cluster, "PyTorchJob", "train", 4, quota="full")).allowed
    await show(cluster, "PyTorchJob", "train", 4, **FULL)
    how = {"by": ("PyTorchJob", "train"), "was": ("Job", "night")}
    await begin(cluster, "Pod", "train-0", 4, by=("PyTorchJob", "train"), user=CONTROLLER)

    for _ in range(2):
        assert (await adopt(cluster, "Pod", "p", 4, **how)).reason == "over-quota"
    lives = cluster.admission.view.coverage.lives
    assert [lives.node(uid).pods["limits.cpu"] for uid in ("night", "train")] == [4000, 4000]


async def test_what_was_to_be_adopted_and_was_not_counts_where_it_was(cluster):
    """The change was let pass, and never landed."""
    await cluster.see_quota("full", {"limits.cpu": 20_000})
    await begin(cluster, "ReplicaSet", "set", 4, 2)
    await show(cluster, "Pod", "p", 4, by=("ReplicaSet", "set"))
    for kind, uid in (("Deployment", "web"), ("PyTorchJob", "train")):
        assert (await ask(cluster, kind, uid, 1, 1, quota="full")).allowed
        await show(cluster, kind, uid, 1, 1, **FULL)
    of_web = {"by": ("Deployment", "web"), "user": CONTROLLER}
    assert (await adopt(cluster, "ReplicaSet", "set", 4, 2, **of_web)).reason == "raised"
    of_train = {"by": ("PyTorchJob", "train"), "was": ("ReplicaSet", "set")}
    assert (await adopt(cluster, "Pod", "p", 4, **of_train)).reason == "raised"
    lives = cluster.admission.view.coverage.lives
    assert lives.node("train").pods["limits.cpu"] == 4000

    cluster.clock.after(100)
    await show(cluster, "Job", "later", 0)
    assert not (lives.has("web") or lives.has("train"))
    assert lives.node("set").pods["limits.cpu"] == 4000


async def test_a_set_that_was_not_let_go_after_all_counts_for_its_owner_again(cluster):
    """A user writes a label between the review of the garbage collector and its write, which fails, and is reviewed again."""
    await deployed(cluster, cpu=2)
    of_web = {"by": ("Deployment", "web")}
    old = made("ReplicaSet", "web-1", 2, 2, version=500, **of_web)
    new = made("ReplicaSet", "web-1", 2, 2, version=500)
    let_go = {"operation": "UPDATE", **OF["ReplicaSet"], **GC}
    assert (await cluster.review(new, old_object=old, **let_go)).reason == "orphaned"
    assert cluster.said("decided")[-1]["left"] == {"uid": "web"}

    await show(cluster, "ReplicaSet", "web-1", 2, 2, **of_web, **FULL)
    assert (cluster.used("full"), cluster.used()) == (0, 4000)
    last = cluster.said("decided")[-1]
    assert (last["uid"], last["reason"]) == ("web", "outgrown")
    assert (await ask(cluster, "Job", "other", 4, quota="full")).allowed
    for stored in (old, new):
        stored["metadata"]["labels"] = {QUOTA: "full"}
        stored["metadata"]["resourceVersion"] = "900"
    assert (await cluster.review(new, old_object=old, **let_go)).reason == "over-quota"


async def test_what_was_admitted_itself_is_charged_for_its_pods_while_its_owner_is_awaited(cluster):
    """A Rollout may make ReplicaSets by any account. Pods below a set that named an invented one passed for 15 s."""
    of = {"by": ("ReplicaSet", "set"), "user": CONTROLLER}
    await begin(cluster, "ReplicaSet", "set", 4, 1, by=("Rollout", "invented"))
    await begin(cluster, "Job", "other", 14)

    answers = [(await ask(cluster, "Pod", f"p{n}", 4, **of)).reason for n in range(2)]
    assert answers == ["covered", "over-quota"]


async def test_what_was_charged_itself_and_holds_nothing_now_is_not_covered_by_whom_it_named(
    cluster,
):
    """Its charge was given back, and its reference forgotten to be made up: what it adopted next was the named one's."""
    await begin(cluster, "Deployment", "web", 4, 1)
    by = {"by": ("Deployment", "web")}
    assert (await ask(cluster, "ReplicaSet", "set", 4, 1, quota="full", **by)).reason == "fits"
    await show(cluster, "ReplicaSet", "set", 4, 1, **FULL, **by)
    await show(cluster, "ReplicaSet", "set", 4, 0, **FULL, **by)
    cluster.clock.us += 80 * SECOND_US
    await cluster.list("set", kind="ReplicaSet")
    assert (cluster.used("full"), cluster.used()) == (0, 4000)

    await show(cluster, "Pod", "p", 3, by=("ReplicaSet", "set"))
    assert (cluster.used("full"), cluster.used()) == (3000, 4000)


async def test_whoever_makes_very_many_that_name_owners_has_none_covered_that_is_charged_itself(
    cluster, monkeypatch
):
    monkeypatch.setattr("reactors.admission.coverage.named.KEPT", 2)
    await begin(cluster, "Deployment", "web", 1, 1)
    by = {"by": ("Deployment", "web")}
    await begin(cluster, "ReplicaSet", "set", 1, 1, **by)
    for number in range(3):
        await begin(cluster, "ReplicaSet", f"many{number}", 1, 1, **by)
    assert cluster.used() == 5000

    await show(cluster, "ReplicaSet", "set", 2, 1, **by)
    assert cluster.used() == 6000


async def test_those_that_are_gone_take_no_place_among_those_that_named_owners(
    cluster, monkeypatch
):
    monkeypatch.setattr("reactors.admission.coverage.named.KEPT", 2)
    await begin(cluster, "Deployment", "web", 1, 1)
    by = {"by": ("Deployment", "web")}
    await begin(cluster, "ReplicaSet", "set", 1, 1, **by)
    await begin(cluster, "ReplicaSet", "gone", 1, 1, **by)
    await cluster.lose("gone", kind="ReplicaSet")
    await begin(cluster, "Pod", "over", 1, **by)
    await cluster.lose_pod("over")
    await begin(cluster, "ReplicaSet", "last", 1, 1, **by)

    assert set(cluster.admission.view.coverage.named.saved()._owners) == {"set", "last"}


async def test_a_pod_keeps_its_own_charge_until_its_owners_is_raised_for_it(cluster):
    """What is on its way below the owner holds the raise up, and what was given back meanwhile was given to others."""
    by = {"by": ("PyTorchJob", "train")}
    assert (await ask(cluster, "Pod", "early", 4, **by)).reason == "fits"
    cluster.clock.us += 50 * SECOND_US
    assert (await ask(cluster, "PyTorchJob", "train", 4, 1)).reason == "fits"
    assert (await ask(cluster, "Pod", "next", 4, **by)).reason == "covered"
    await show(cluster, "PyTorchJob", "train", 4, 1)
    await show(cluster, "Pod", "early", 4, **by)
    cluster.clock.us += 30 * SECOND_US
    await cluster.list_pods("early")
    assert cluster.used() == 8000

    await show(cluster, "Pod", "next", 4, **by)
    await cluster.list_pods("early", "next")
    assert cluster.used() == 8000
    assert cluster.said("released")[-1]["releases"][0]["uid"] == "early"
