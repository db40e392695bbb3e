"""Pods that land below owners that were deleted a moment before are charged to them until they have ended."""

import itertools

import pytest

from bus.clock import SECOND_US
from bus.events.namespaces import NamespaceObserved
from tests.reactors.admission.below import CONTROLLER, OF, ask, begin, deployed, made, owner, show
from tests.reactors.cluster import QUOTA, Cluster

pytestmark = pytest.mark.simulated


@pytest.fixture
async def cluster():
    async with Cluster() as running:
        await running.see_quota("team", {"limits.cpu": 10_000})
        yield running


async def test_a_pod_that_is_seen_after_its_owners_were_deleted_is_charged_to_the_last_of_them(
    cluster,
):
    """It was made a moment before their delete, and heard of after it: it runs until it has ended."""
    await begin(cluster, "Deployment", "web", 4, 1)
    await begin(cluster, "ReplicaSet", "web-1", 4, 1, by=("Deployment", "web"), user=CONTROLLER)
    await cluster.lose("web-1", kind="ReplicaSet")
    await cluster.lose("web", kind="Deployment")
    await show(cluster, "Pod", "web-1-0", 4, by=("ReplicaSet", "web-1"))
    assert cluster.used() == 4000

    await cluster.lose_pod("web-1-0", owner("ReplicaSet", "web-1"))
    assert cluster.used() == 0


@pytest.mark.parametrize(
    "order", [*itertools.permutations(("set", "web", "pod"))], ids=lambda order: " ".join(order)
)
async def test_a_pod_that_lands_late_is_charged_once_in_whatever_order_its_owners_go(
    cluster, order
):
    """What ended before it gave the charge back. It is charged although the quota is used by others."""
    await deployed(cluster, cpu=4, replicas=1)
    await cluster.lose_pod("web-1-0", owner("ReplicaSet", "web-1"))
    steps = {
        "set": lambda: cluster.lose("web-1", kind="ReplicaSet"),
        "web": lambda: cluster.lose("web", kind="Deployment"),
        "pod": lambda: show(cluster, "Pod", "late", 6, by=("ReplicaSet", "web-1")),
    }
    for step in order:
        await steps[step]()
    assert cluster.used() == 6000
    assert (await ask(cluster, "Job", "next", 5)).reason == "over-quota"

    await show(cluster, "Pod", "later", 7, by=("ReplicaSet", "web-1"))
    assert cluster.used() == 13_000
    assert cluster.said("decided")[-1]["reason"] == "outgrown"
    for uid in ("late", "later"):
        await cluster.lose_pod(uid, owner("ReplicaSet", "web-1"))
    assert cluster.used() == 0


async def test_a_pod_below_a_set_that_is_gone_is_charged_to_the_deployment_that_stays(cluster):
    await deployed(cluster, cpu=4, replicas=1)
    await cluster.lose_pod("web-1-0", owner("ReplicaSet", "web-1"))
    await cluster.lose("web-1", kind="ReplicaSet")
    await show(cluster, "Pod", "late", 6, by=("ReplicaSet", "web-1"))

    assert cluster.used() == 6000
    last = cluster.said("decided")[-1]
    assert (last["uid"], last["reason"]) == ("web", "outgrown")


async def test_a_pod_below_a_set_that_was_charged_itself_is_charged_where_that_was(cluster):
    """A user wrote the reference to the Deployment, so the ReplicaSet answered for itself, in another quota."""
    await cluster.see_quota("other", {"limits.cpu": 10_000})
    await begin(cluster, "Deployment", "web", 1, 1)
    by = {"by": ("Deployment", "web"), "quota": "other"}
    assert (await ask(cluster, "ReplicaSet", "set", 4, 1, **by)).reason == "fits"
    await show(
        cluster, "ReplicaSet", "set", 4, 1, by=("Deployment", "web"), labels={QUOTA: "other"}
    )
    await cluster.lose("set", kind="ReplicaSet")
    assert cluster.used("other") == 0
    await show(cluster, "Pod", "late", 4, by=("ReplicaSet", "set"))

    assert (cluster.used("other"), cluster.used()) == (4000, 1000)


async def test_a_set_that_was_given_away_and_is_gone_before_that_is_seen_answers_for_its_pods(
    cluster,
):
    """Its user named another Deployment, which it was charged itself for, and deleted it while nobody looked."""
    await deployed(cluster, cpu=4, replicas=1)
    cluster.skip_versions(600)
    by_web = {"by": ("Deployment", "web")}
    await show(cluster, "ReplicaSet", "web-1", 4, 1, **by_web)
    before = made("ReplicaSet", "web-1", 4, 1, version=600, **by_web)
    given = {"by": ("Deployment", "next"), "before": before, "version": 600}
    assert (await ask(cluster, "ReplicaSet", "web-1", 4, 1, **given)).reason == "fits"
    assert cluster.used() == 8000

    entries = len(cluster.said("released"))
    await cluster.lose("web-1", kind="ReplicaSet")
    await cluster.lose("web", kind="Deployment")
    assert cluster.used() == 4000
    assert [one["releases"][0]["uid"] for one in cluster.said("released")[entries:]] == ["web"]
    await cluster.lose_pod("web-1-0", owner("ReplicaSet", "web-1"))
    assert cluster.used() == 0


async def test_what_lives_below_an_owner_that_is_gone_moves_with_its_namespace(cluster):
    """Its namespace is given to another team while its pods still end."""
    await cluster.see_quota("other", {"limits.cpu": 10_000})
    for quota, expected in (("team", (4000, 0)), ("other", (0, 4000))):
        labels = {QUOTA: quota}
        version = {"team": "5", "other": "700"}[quota]
        mapped = NamespaceObserved(uid="n", name="ns", resource_version=version, labels=labels)
        await cluster.say(mapped, "ns")
        if quota == "team":
            await show(cluster, "Deployment", "web", 4, 1, labels={})
            await show(cluster, "ReplicaSet", "set", 4, 1, by=("Deployment", "web"), labels={})
            await show(cluster, "Pod", "p", 4, by=("ReplicaSet", "set"), labels={})
            await cluster.lose("set", kind="ReplicaSet")
            await cluster.lose("web", kind="Deployment")
        assert (cluster.used(), cluster.used("other")) == expected


@pytest.mark.parametrize(
    "order",
    [one for one in itertools.permutations(("gone", "seen", "set", "pod")) if one[0] != "pod"],
    ids=lambda order: " ".join(order),
)
async def test_an_owner_that_is_observed_after_its_delete_only_is_charged_in_every_order(
    cluster, order
):
    """Its namespace is mapped, so it has no labels, and no owner: nothing of it seemed to change."""
    mapped = NamespaceObserved(uid="n", name="ns", resource_version="5", labels={QUOTA: "team"})
    await cluster.say(mapped, "ns")
    cluster.skip_versions(600)
    cluster.is_tampered = True
    steps = {
        "gone": lambda: cluster.lose("web", kind="Deployment"),
        "seen": lambda: show(cluster, "Deployment", "web", 2, 1, labels={}),
        "set": lambda: show(
            cluster, "ReplicaSet", "set", 2, 1, by=("Deployment", "web"), labels={}
        ),
        "pod": lambda: show(cluster, "Pod", "p", 6, by=("ReplicaSet", "set"), labels={}),
    }
    for step in order:
        await steps[step]()

    assert cluster.used() == 6000


@pytest.mark.parametrize("is_watched", [True, False], ids=["its delete was seen", "unseen"])
async def test_what_is_gone_unseen_after_a_model_was_admitted_is_charged_as_that_model(
    cluster, is_watched
):
    """Whether it landed before the delete, nobody knows: the model was given back, and others had it beside what lives on."""
    await cluster.see_quota("team", {"limits.cpu": 10_000, "limits.cpu.A4": 5000})
    await deployed(cluster, replicas=1)
    cluster.skip_versions(600)
    await show(cluster, "Deployment", "web", 4, 1)
    before, after = (made("Deployment", "web", 4, version=600) for _ in range(2))
    after["metadata"]["labels"] = {QUOTA: "team", f"{QUOTA}/cpu-type": "A4"}
    change = {"operation": "UPDATE", "old_object": before, **OF["Deployment"]}
    assert (await cluster.review(after, **change)).reason == "fits"
    await cluster.lose("web-1", kind="ReplicaSet")

    if is_watched:
        await cluster.lose("web", kind="Deployment")
    else:
        await cluster.list(kind="Deployment")
    assert cluster.used(key="limits.cpu.A4") == (0 if is_watched else 4000)
    cluster.clock.us += 80 * SECOND_US
    await cluster.list(kind="Deployment")
    assert (cluster.used(), cluster.used(key="limits.cpu.A4")) == (4000, 0 if is_watched else 4000)
    await cluster.lose_pod("web-1-0", owner("ReplicaSet", "web-1"))
    assert (cluster.used(), cluster.used(key="limits.cpu.A4")) == (0, 0)


@pytest.mark.parametrize("is_watched", [True, False], ids=["its delete was seen", "unseen"])
async def test_what_is_gone_unseen_after_its_move_was_admitted_is_charged_in_both_quotas(
    cluster, is_watched
):
    """Whether the move landed before the delete, nobody knows: the new quota was given back what lives on in it."""
    await cluster.see_quota("other", {"limits.cpu": 10_000})
    await deployed(cluster, replicas=1)
    cluster.skip_versions(600)
    await show(cluster, "Deployment", "web", 4, 1)
    moves = {"before": made("Deployment", "web", 4, version=600), "version": 600, "quota": "other"}
    assert (await ask(cluster, "Deployment", "web", 4, **moves)).reason == "fits"
    await cluster.lose("web-1", kind="ReplicaSet")

    if is_watched:
        # Whoever saw that saw all changes before it.
        await cluster.lose("web", kind="Deployment")
    else:
        await cluster.list(kind="Deployment")
    assert (cluster.used(), cluster.used("other")) == (4000, 0 if is_watched else 4000)
    cluster.clock.us += 80 * SECOND_US
    await cluster.list(kind="Deployment")
    assert (cluster.used(), cluster.used("other")) == (4000, 0 if is_watched else 4000)
    await cluster.lose_pod("web-1-0", owner("ReplicaSet", "web-1"))
    assert (cluster.used(), cluster.used("other")) == (0, 0)
