"""A charge never falls below what lives: pods outlast the template, the owner, and the reference to it."""

import pytest

from tests.reactors.admission.below import CONTROLLER, OF, ask, begin, deployed, made, owner, show
from tests.reactors.cluster import QUOTA, Cluster

pytestmark = pytest.mark.simulated

GC = CONTROLLER | {"user": "system:serviceaccount:kube-system:generic-garbage-collector"}


SCALE = {**OF["ReplicaSet"], "operation": "UPDATE", "subresource": "scale"}


def scale_of_set(replicas):
    metadata = {"name": "set", "namespace": "ns", "uid": "set"}
    return {"metadata": metadata, "spec": {"replicas": replicas}}


@pytest.fixture
async def cluster():
    async with Cluster() as running:
        await running.see_quota("team", {"limits.cpu": 10_000})
        yield running


def released(cluster):
    return [r["reason"] for e in cluster.said("released") for r in e["releases"]]


async def test_a_paused_deployment_with_a_smaller_template_gives_back_nothing(cluster):
    """Quota 10, Deployment 2x5, paused, template to 1m: 10 CPU run on, and nothing else fits beside them."""
    await deployed(cluster, cpu=5)
    cluster.clock.after(100)
    before = made("Deployment", "web", 5, 2, version=50)
    assert (await ask(cluster, "Deployment", "web", 0.001, 2, version=50, before=before)).allowed
    cluster.skip_versions(60)
    await show(cluster, "Deployment", "web", 0.001, 2)

    assert cluster.used() == 10_000
    assert (await ask(cluster, "Job", "more", 8)).reason == "over-quota"
    await show(cluster, "ReplicaSet", "web-1", 5, 0, by=("Deployment", "web"))
    assert cluster.used() == 10_000
    for number, left in ((0, 5000), (1, 2)):
        await cluster.lose_pod(f"web-1-{number}", owner("ReplicaSet", "web-1"))
        assert cluster.used() == left


async def test_a_stateful_set_that_replaces_nothing_by_itself_keeps_what_its_pods_hold(cluster):
    """OnDelete, or a partition: the old pods stay, and as many new ones as the template asks for do not fit beside them."""
    await begin(cluster, "StatefulSet", "db", 5, 2)
    by = {"by": ("StatefulSet", "db"), "user": CONTROLLER}
    for number in range(2):
        await begin(cluster, "Pod", f"db-{number}", 5, **by)
    cluster.clock.after(100)
    before = made("StatefulSet", "db", 5, 2, version=50)
    assert (await ask(cluster, "StatefulSet", "db", 1, 10, version=50, before=before)).allowed
    cluster.skip_versions(60)
    await show(cluster, "StatefulSet", "db", 1, 10)

    assert (await ask(cluster, "Pod", "db-2", 1, **by)).reason == "over-quota"
    await cluster.lose_pod("db-1", owner("StatefulSet", "db"))
    assert (await ask(cluster, "Pod", "db-1-new", 1, **by)).reason == "covered"
    assert cluster.used() == 10_000


@pytest.mark.parametrize("to", ["another quota", "a model"])
async def test_a_label_that_moves_a_workload_moves_what_its_pods_ask(cluster, to):
    """Its template was shrunk to 1m before: by that alone the pods would run on, above the limit that they come under."""
    await cluster.see_quota("other", {"limits.cpu": 5000})
    await cluster.see_quota("team", {"limits.cpu": 10_000, "limits.cpu.A4": 5000})
    await deployed(cluster, cpu=4)
    cluster.skip_versions(60)
    await show(cluster, "Deployment", "web", 0.001, 2)
    before, after = (made("Deployment", "web", 0.001, 2, version=70) for _ in range(2))
    after["metadata"]["labels"] = (
        {QUOTA: "other"} if to == "another quota" else {QUOTA: "team", f"{QUOTA}/cpu-type": "A4"}
    )
    fields = {"operation": "UPDATE", "old_object": before, **OF["Deployment"]}

    assert (await cluster.review(after, **fields)).reason == "over-quota"
    assert (cluster.used("other"), cluster.used(key="limits.cpu.A4")) == (0, 0)


@pytest.mark.parametrize(("kind", "child"), [("CronJob", "Job"), ("Job", "Pod")])
async def test_an_edit_or_a_suspension_frees_only_what_has_ended(cluster, kind, child):
    """A CronJob's run goes on as it was made, whatever the CronJob says now; so do pods of a suspended Job that still end."""
    await begin(cluster, kind, "top", 8)
    await begin(cluster, child, "below", 8, by=(kind, "top"), user=CONTROLLER)
    if child == "Job":
        await begin(cluster, "Pod", "pod", 8, by=("Job", "below"), user=CONTROLLER)
    cluster.clock.after(100)
    await show(cluster, kind, "top", 0)
    assert cluster.used() == 8000

    if child == "Job":
        await cluster.lose("below")
        assert cluster.used() == 8000
    await cluster.lose_pod("pod" if child == "Job" else "below", owner("Job", "below"))
    assert cluster.used() == 0


async def test_limits_that_no_request_shows_are_held_as_long_as_the_pods(cluster):
    await begin(cluster, "Job", "a", 5)
    by = ("Job", "a")
    await show(cluster, "Pod", "p", 0.001, by=by, limits={"cpu": 5000})
    cluster.clock.after(100)
    await show(cluster, "Job", "a", 0)
    assert cluster.used() == 5000
    await show(cluster, "Pod", "p", 0.001, by=by, limits={"cpu": 5000}, phase="Succeeded")

    assert cluster.used() == 0


@pytest.mark.parametrize("on", ["pod", "owner"])
async def test_typed_keys_are_held_as_long_as_the_pods(cluster, on):
    """The model may be named by the pods, or by their owner alone."""
    await cluster.see_quota("team", {"limits.cpu": 10_000, "limits.cpu.A4": 4000})
    types = {f"{QUOTA}/cpu-type": "A4"}
    labels = {QUOTA: "team", **types}
    first = made("Job", "a", 4)
    first["metadata"]["labels"] = labels
    assert (await cluster.review(first)).allowed
    await cluster.see("a", 4, labels=labels)
    of_pod = {"labels": labels} if on == "pod" else {}
    await show(cluster, "Pod", "p", 4, by=("Job", "a"), **of_pod)
    cluster.clock.after(100)
    await cluster.see("a", 0, labels=labels if on == "owner" else {QUOTA: "team"})

    assert cluster.used(key="limits.cpu.A4") == 4000
    await cluster.lose_pod("p", owner("Job", "a"))
    assert cluster.used(key="limits.cpu.A4") == 0


async def test_a_deleted_owner_holds_what_its_pods_hold_until_they_end(cluster):
    """A delete in the background is done at once; the pods have their grace, a day if they like."""
    await deployed(cluster, cpu=5)
    await cluster.lose("web", kind="Deployment")
    assert cluster.used() == 10_000
    assert (await ask(cluster, "Job", "next", 5)).reason == "over-quota"
    await cluster.lose("web-1", kind="ReplicaSet")
    await cluster.lose_pod("web-1-0", owner("ReplicaSet", "web-1"))
    assert cluster.used() == 5000
    await cluster.list_pods()
    assert cluster.used() == 5000, "seen in the same moment as the list"
    cluster.clock.after(1)
    await cluster.list_pods()

    assert cluster.used() == 0


async def test_a_list_without_a_deleted_owner_gives_back_nothing_that_lives(cluster):
    """Something was asked for it a moment before its delete, so a complete list has to settle that."""
    await deployed(cluster, cpu=5)
    before = made("Deployment", "web", 5, 2, version=50)
    assert (await ask(cluster, "Deployment", "web", 4, 2, version=50, before=before)).allowed
    await cluster.lose("web", kind="Deployment")
    cluster.clock.after(100)
    await cluster.list(kind="Deployment")

    assert cluster.used() == 10_000
    await cluster.lose("web-1", kind="ReplicaSet")
    await cluster.lose_pod("web-1-0", owner("ReplicaSet", "web-1"))
    assert cluster.used() == 5000
    await cluster.lose_pod("web-1-1", owner("ReplicaSet", "web-1"))
    assert cluster.used() == 0


async def test_a_list_without_an_owner_that_was_never_seen_gives_back_nothing_that_lives(cluster):
    """It was made and deleted while nobody watched; what was made below it still ends."""
    assert (await ask(cluster, "Job", "night", 4, 2)).allowed
    for number in range(2):
        await begin(cluster, "Pod", f"night-{number}", 4, by=("Job", "night"), user=CONTROLLER)
    for left, pods in ((8000, ("night-0", "night-1")), (4000, ("night-1",)), (0, ())):
        cluster.clock.after(100)
        await cluster.list_pods(*pods)
        await cluster.list(kind="Job")
        assert cluster.used() == left


async def test_pods_that_passed_unseen_below_an_owner_raise_its_charge(cluster):
    """While no webhook answers, what a controller makes passes: it is charged when it is seen."""
    await deployed(cluster, cpu=5, replicas=1)
    for number in range(3):
        await show(cluster, "Pod", f"new-{number}", 5, by=("ReplicaSet", "web-1"))

    assert cluster.used() == 20_000
    assert cluster.said("decided")[-1]["reason"] == "outgrown"


async def test_of_one_key_a_charge_rises_while_that_of_another_falls(cluster):
    """A pod is resized. What fell was the charge from before the rise, so that was lost for a moment, and adopted again."""
    await begin(cluster, "Job", "a", 4)
    await show(cluster, "Pod", "p", 4, by=("Job", "a"), limits={"cpu": 4000})
    cluster.clock.after(100)
    await cluster.see("a", 0)
    await cluster.see_quota("team", {"limits.cpu": 10_000, "limits.memory": 10_000})
    amounts = {"cpu": 1000, "memory": 5000}
    await show(cluster, "Pod", "p", 1, by=("Job", "a"), limits=amounts)

    assert (cluster.used(), cluster.used(key="limits.memory")) == (1000, 5000)
    assert [one["reason"] for one in cluster.said("decided")[1:]] == ["outgrown"]


# Objects whose owner is not known, or comes later.


async def test_an_adopted_pod_gives_its_charge_back_when_its_owner_is_seen(cluster):
    """Kinds are listed one after the other, and a Deployment may be listed long after its pods."""
    await show(cluster, "Pod", "web-1-0", 4, by=("ReplicaSet", "web-1"))
    assert cluster.used() == 0
    cluster.clock.after(15)
    await show(cluster, "Job", "other", 1)
    assert cluster.used() == 5000, "its owner may never be seen"
    await show(cluster, "ReplicaSet", "web-1", 4, 1, by=("Deployment", "web"))
    await show(cluster, "Deployment", "web", 4, 1)
    cluster.clock.after(100)
    await show(cluster, "Job", "other", 2)

    assert cluster.used() == 6000
    assert "covered" in released(cluster)
    await cluster.lose_pod("web-1-0", owner("ReplicaSet", "web-1"))
    await cluster.lose("web-1", kind="ReplicaSet")
    await cluster.lose("web", kind="Deployment")
    assert cluster.used() == 2000


@pytest.mark.parametrize("is_asked", [True, False], ids=["admitted", "passed unseen"])
async def test_a_bare_pod_that_a_replica_set_adopts_is_charged_once_and_not_beyond_its_end(
    cluster, is_asked
):
    """A controller takes a pod whose labels it selects, and makes one less for it."""
    await begin(cluster, "Deployment", "web", 4, 1)
    of_web = {"by": ("Deployment", "web"), "user": CONTROLLER}
    await begin(cluster, "ReplicaSet", "web-1", 4, 1, **of_web)
    if is_asked:
        assert (await ask(cluster, "Pod", "lone", 4)).allowed
    await show(cluster, "Pod", "lone", 4)
    assert cluster.used() == 8000
    await show(cluster, "Pod", "lone", 4, by=("ReplicaSet", "web-1"))
    assert cluster.used() == 4000
    await cluster.lose_pod("lone", owner("ReplicaSet", "web-1"))
    assert cluster.used() == 4000
    await cluster.lose("web", kind="Deployment")
    await cluster.lose("web-1", kind="ReplicaSet")
    assert cluster.used() == 0


async def test_a_pod_to_which_a_user_writes_an_owner_stays_charged_itself(cluster):
    await deployed(cluster, cpu=2)
    await begin(cluster, "Pod", "lone", 4)
    patch = {
        "by": ("ReplicaSet", "web-1"),
        "version": 9,
        "before": made("Pod", "lone", 4, version=9),
    }
    assert (await ask(cluster, "Pod", "lone", 4, **patch)).reason == "fewer"
    await show(cluster, "Pod", "lone", 4, by=("ReplicaSet", "web-1"))
    assert cluster.used() == 8000
    await cluster.lose_pod("lone", owner("ReplicaSet", "web-1"))

    assert cluster.used() == 4000


async def test_an_adopted_pod_that_is_gone_is_charged_no_more(cluster):
    await show(cluster, "Pod", "p", 4, by=("Job", "invented"))
    cluster.clock.after(15)
    await show(cluster, "Job", "other", 1)
    assert cluster.used() == 5000
    await cluster.lose_pod("p", owner("Job", "invented"))

    assert cluster.used() == 1000


async def test_an_object_is_charged_once_in_whatever_order_its_chain_is_seen(cluster):
    steps = [
        ("Deployment", "web", 4, 1, None),
        ("ReplicaSet", "web-1", 4, 1, ("Deployment", "web")),
        ("Pod", "web-1-0", 4, 1, ("ReplicaSet", "web-1")),
    ]
    for number, order in enumerate(((0, 1, 2), (2, 1, 0), (1, 2, 0), (2, 0, 1))):
        for step in order:
            kind, uid, cpu, replicas, by = steps[step]
            by = (by[0], f"{by[1]}/{number}") if by else None
            await show(cluster, kind, f"{uid}/{number}", cpu, replicas, by=by)
            cluster.clock.after(20)
            await cluster.see_quota("team", {"limits.cpu": 10_000})

        assert cluster.used() == 4000 * (number + 1), order


# Owners that go without their children.


def orphan(kind, uid, cpu, replicas=1, *, by):
    old = made(kind, uid, cpu, replicas, by=by, version=500)
    new = made(kind, uid, cpu, replicas, version=500)
    return {"object": new, "old_object": old, "operation": "UPDATE", **OF[kind], **GC}


async def review(cluster, fields):
    return await cluster.review(fields.pop("object"), **fields)


async def test_an_orphan_takes_its_part_of_the_owners_charge_in_one_entry(cluster):
    """`kubectl delete --cascade=orphan` with more than half of a quota used. Nothing new runs, so nothing is refused."""
    await deployed(cluster, cpu=4)
    cluster.skip_versions(600)
    entries = len(cluster.said("decided"))
    answer = await review(cluster, orphan("ReplicaSet", "web-1", 4, 2, by=("Deployment", "web")))

    assert (answer.allowed, answer.reason, cluster.used()) == (True, "orphaned", 8000)
    [moved] = cluster.said("decided")[entries:]
    assert moved["left"] == {"uid": "web"}
    await show(cluster, "Deployment", "web", 4, 2)
    await show(cluster, "ReplicaSet", "web-1", 4, 2)
    assert cluster.used() == 8000
    going = made("Deployment", "web", 4, 2, version=501, deletionTimestamp="2026-01-01T00:00:00Z")
    last = await cluster.review(
        going, operation="UPDATE", old_object=going, **OF["Deployment"], **GC
    )
    assert last.allowed, "the finalizer goes"
    await cluster.lose("web", kind="Deployment")
    assert cluster.used() == 8000
    await cluster.lose("web-1", kind="ReplicaSet")
    assert cluster.used() == 8000
    for number in range(2):
        await cluster.lose_pod(f"web-1-{number}", owner("ReplicaSet", "web-1"))
    assert cluster.used() == 0


async def test_a_pod_that_a_controller_adopts_has_to_fit_the_quota_of_its_owner(cluster):
    await cluster.see_quota("other", {"limits.cpu": 10_000})
    await begin(cluster, "ReplicaSet", "set", 4, 2)
    for number in range(2):
        await begin(cluster, "Pod", f"p{number}", 4, by=("ReplicaSet", "set"), user=CONTROLLER)
    before = made("Pod", "lone", 4, quota="other", version=500)
    assert (await ask(cluster, "Pod", "lone", 4, quota="other")).allowed
    await show(cluster, "Pod", "lone", 4, labels={QUOTA: "other"})
    by = {"by": ("ReplicaSet", "set"), "quota": "other", "version": 500, "before": before}

    assert (await ask(cluster, "Pod", "lone", 4, user=CONTROLLER, **by)).reason == "over-quota"
    await cluster.see_quota("team", {"limits.cpu": 12_000})
    assert (await ask(cluster, "Pod", "lone", 4, user=CONTROLLER, **by)).reason == "raised"


async def test_a_pod_that_is_given_another_owner_keeps_the_charge_that_this_was_asked_for(cluster):
    """Before the change lands it is seen with its first owner once more: what was given back then, the other one covered."""
    await cluster.see_quota("team", {"limits.cpu": 20_000})
    await begin(cluster, "StatefulSet", "db", 4, 1)
    await begin(cluster, "Pod", "db-0", 4, by=("StatefulSet", "db"), user=CONTROLLER)
    await begin(cluster, "ReplicaSet", "set", 4, 2)
    cluster.skip_versions(60)
    before = made("Pod", "db-0", 4, by=("StatefulSet", "db"), version=500)
    by = {"by": ("ReplicaSet", "set"), "version": 500, "before": before}
    assert (await ask(cluster, "Pod", "db-0", 4, **by)).reason == "fits"
    await show(cluster, "Pod", "db-0", 4, by=("StatefulSet", "db"))
    assert (released(cluster), cluster.used()) == ([], 16_000)

    cluster.skip_versions(600)
    await show(cluster, "Pod", "db-0", 4, by=("ReplicaSet", "set"))
    assert (released(cluster), cluster.used()) == ([], 16_000)


@pytest.mark.parametrize(
    "to", [("Rollout", "made-up"), ("ReplicaSet", "set"), None], ids=["made up", "charged", "none"]
)
async def test_a_pod_that_is_given_another_owner_while_it_ends_asks_for_itself(cluster, to):
    """It ends when it likes, and no longer counts below the owner that it had."""
    await begin(cluster, "StatefulSet", "db", 4, 1)
    await begin(cluster, "Pod", "db-0", 4, by=("StatefulSet", "db"), user=CONTROLLER)
    await begin(cluster, "ReplicaSet", "set", 4, 1)
    by = {"version": 500, "deletionTimestamp": "2026-01-01T00:00:00Z"}
    before = made("Pod", "db-0", 4, by=("StatefulSet", "db"), **by)

    finalized = await ask(
        cluster, "Pod", "db-0", 4, before=before, by=("StatefulSet", "db"), finalizers=[], **by
    )
    assert finalized.reason == "unchanged"
    assert (await ask(cluster, "Pod", "db-0", 4, before=before, by=to, **by)).reason == "over-quota"


async def test_an_orphan_that_ends_takes_its_part_of_the_owners_charge_along(cluster):
    await begin(cluster, "StatefulSet", "db", 4, 1)
    await begin(cluster, "Pod", "db-0", 4, by=("StatefulSet", "db"), user=CONTROLLER)
    orphaned = orphan("Pod", "db-0", 4, by=("StatefulSet", "db"))
    for object in (orphaned["object"], orphaned["old_object"]):
        object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"

    assert (await review(cluster, orphaned)).reason == "orphaned"


async def test_an_owner_that_goes_without_its_children_asks_for_no_more_when_it_is_changed(cluster):
    """Its pods took its charge along; an edit of what is left of it brings nothing back."""
    await begin(cluster, "StatefulSet", "db", 4, 2)
    for number in range(2):
        await begin(cluster, "Pod", f"db-{number}", 4, by=("StatefulSet", "db"), user=CONTROLLER)
    for number in range(2):
        await review(cluster, orphan("Pod", f"db-{number}", 4, by=("StatefulSet", "db")))
    before = made("StatefulSet", "db", 4, 2, version=500)
    assert (await ask(cluster, "StatefulSet", "db", 1, 1, version=500, before=before)).allowed
    await show(cluster, "StatefulSet", "db", 4, 2)

    assert cluster.used() <= 9000
    assert "ungoverned" not in [one["reason"] for one in cluster.said("decided")]


async def test_an_owner_that_an_earlier_request_named_does_not_answer_either(cluster):
    """Two requests change one version, and are admitted in one order: the first of them may be the one that lands."""
    await begin(cluster, "ReplicaSet", "set", 4, 1)
    await begin(cluster, "Pod", "p", 4)
    before = made("Pod", "p", 4, version=500)
    for by in (("ReplicaSet", "set"), None, ("ReplicaSet", "other")):
        named = {"by": by, "version": 500, "before": before, "annotations": {"a": str(by)}}
        assert (await ask(cluster, "Pod", "p", 4, **named)).allowed
    cluster.skip_versions(600)
    await show(cluster, "Pod", "p", 4, by=("ReplicaSet", "set"))

    assert (released(cluster), cluster.used()) == ([], 8000)


async def test_whoever_names_very_many_owners_is_answered_for_by_none(cluster):
    await begin(cluster, "ReplicaSet", "set", 4, 1)
    await begin(cluster, "Pod", "p", 4)
    before = made("Pod", "p", 4, version=500)
    for uid in ("set", *(f"set-{n}" for n in range(20))):
        named = {"by": ("ReplicaSet", uid), "version": 500, "before": before}
        assert (await ask(cluster, "Pod", "p", 4, **named)).allowed
    cluster.skip_versions(600)
    await show(cluster, "Pod", "p", 4, by=("ReplicaSet", "set"))

    assert (released(cluster), cluster.used()) == ([], 8000)


async def test_orphaned_pods_are_charged_one_by_one_from_their_owner(cluster):
    await begin(cluster, "StatefulSet", "db", 4, 2)
    for number in range(2):
        await begin(cluster, "Pod", f"db-{number}", 4, by=("StatefulSet", "db"), user=CONTROLLER)
    cluster.skip_versions(600)
    for number in range(2):
        answer = await review(cluster, orphan("Pod", f"db-{number}", 4, by=("StatefulSet", "db")))
        assert (answer.reason, cluster.used()) == ("orphaned", 8000)
        await show(cluster, "Pod", f"db-{number}", 4)
    await cluster.lose("db", kind="StatefulSet")
    assert cluster.used() == 8000
    await cluster.lose_pod("db-0")

    assert cluster.used() == 4000


async def test_only_the_garbage_collector_makes_orphans_for_nothing(cluster):
    """A user who takes the reference away leaves the Deployment, which makes all of it anew."""
    await deployed(cluster, cpu=4)
    fields = orphan("ReplicaSet", "web-1", 4, 2, by=("Deployment", "web"))

    assert (await review(cluster, fields | {"user": "amy", "groups": ()})).reason == "over-quota"


async def test_a_pod_that_its_replica_set_releases_asks_for_itself(cluster):
    """A tenant changes its label. The ReplicaSet stays, and makes another: each took a part of its charge along."""
    await begin(cluster, "ReplicaSet", "set", 4, 2)
    for number in range(2):
        await begin(cluster, "Pod", f"p{number}", 4, by=("ReplicaSet", "set"), user=CONTROLLER)
    pod = orphan("Pod", "p0", 4, by=("ReplicaSet", "set"))

    assert (await review(cluster, pod | CONTROLLER)).reason == "over-quota"
    assert cluster.used() == 8000


async def test_pods_of_a_replica_set_that_goes_while_its_deployment_stays_ask_anew(cluster):
    """The Deployment keeps its charge, and makes as many pods again."""
    await deployed(cluster, cpu=4)

    pod = orphan("Pod", "web-1-0", 4, by=("ReplicaSet", "web-1"))
    assert (await review(cluster, pod)).reason == "over-quota"
    assert cluster.used() == 8000


async def test_what_is_being_deleted_may_lose_its_finalizers_and_change_nothing_else(cluster):
    await cluster.see_quota("other", {"limits.cpu": 1000})
    going = {"deletionTimestamp": "2026-01-01T00:00:00Z", "version": 9}
    old = made("Job", "a", 20, **going)
    fields = {"operation": "UPDATE", "old_object": old, **OF["Job"]}

    assert (await cluster.review(made("Job", "a", 20, **going), **fields)).allowed
    assert not (await cluster.review(made("Job", "a", 21, **going), **fields)).allowed
    assert not (
        await cluster.review(made("Job", "a", 20, quota="other", **going), **fields)
    ).allowed


@pytest.mark.parametrize("gone", [("web",), ("web", "web-1")])
async def test_nothing_is_made_below_an_owner_that_is_gone_and_holds_nothing(cluster, gone):
    """Controllers hear of a delete late. Their pods were let pass then, and nobody was charged for them."""
    await begin(cluster, "Deployment", "web", 5, 2)
    by = {"by": ("Deployment", "web"), "user": CONTROLLER}
    await begin(cluster, "ReplicaSet", "web-1", 5, 0, **by)
    for uid in gone:
        await cluster.lose(uid, kind="Deployment" if uid == "web" else "ReplicaSet")
    await begin(cluster, "Job", "next", 10)
    answer = await ask(cluster, "Pod", "late", 5, by=("ReplicaSet", "web-1"), user=CONTROLLER)

    assert (answer.allowed, answer.reason, cluster.used()) == (False, "owner-gone", 10_000)


async def test_a_replica_set_whose_deployment_is_gone_is_not_scaled(cluster):
    """Until it is collected it stands below nobody who is charged: 50 replicas ran for as long as that took."""
    await begin(cluster, "Deployment", "web", 1, 1)
    by = {"by": ("Deployment", "web"), "user": CONTROLLER}
    await begin(cluster, "ReplicaSet", "set", 1, 1, **by)
    await cluster.lose("web", kind="Deployment")
    answer = await cluster.review(scale_of_set(50), **SCALE)

    assert (answer.allowed, answer.reason) == (False, "owner-gone")
    assert (await cluster.review(scale_of_set(0), **SCALE)).allowed


async def test_a_scale_below_an_invented_owner_does_not_pass_while_that_is_awaited(cluster):
    """A Rollout may make ReplicaSets by any account. One that nobody saw covered what was scaled in its 15 s."""
    by = {"by": ("Rollout", "invented")}
    assert (await ask(cluster, "ReplicaSet", "set", 1, 0, **by)).allowed
    await show(cluster, "ReplicaSet", "set", 1, 0, **by)
    first = await cluster.review(scale_of_set(50), **SCALE)
    cluster.clock.after(20)
    await show(cluster, "Job", "later", 0)

    assert (first.allowed, first.reason) == (False, "owner-unseen")
    assert (await cluster.review(scale_of_set(50), **SCALE)).reason == "over-quota"


# Who runs on every node.


async def test_a_daemon_set_is_charged_by_its_pods(cluster):
    """Pods of DaemonSets were free, and so was every pod whose owner said `kind: DaemonSet`."""
    await begin(cluster, "DaemonSet", "agent", 4, 0)
    by = {"by": ("DaemonSet", "agent"), "user": CONTROLLER}
    answers = [(await ask(cluster, "Pod", f"p{n}", 4, **by)).reason for n in range(3)]

    assert answers == ["raised", "raised", "over-quota"]
    for number in range(2):
        await show(cluster, "Pod", f"p{number}", 4, by=("DaemonSet", "agent"))
    await show(cluster, "DaemonSet", "agent", 4, 2)
    assert cluster.used() == 8000


async def test_a_daemon_set_that_fits_nowhere_is_refused_as_a_whole(cluster):
    for number in range(3):
        labels = {"pool": "gpu" if number else "cpu"}
        await cluster.see_node(f"node-{number}", f"uid-{number}", labels=labels)
    assert (await ask(cluster, "DaemonSet", "agent", 4)).reason == "over-quota"
    gpu = made("DaemonSet", "agent", 4)
    gpu["spec"]["template"]["spec"]["nodeSelector"] = {"pool": "gpu", "kubernetes.io/os": "linux"}

    assert (await cluster.review(gpu, **OF["DaemonSet"])).allowed
    assert cluster.used() == 8000


async def test_a_made_up_daemon_set_or_node_frees_no_pod(cluster):
    evil = {"by": ("DaemonSet", "agent"), "api": "evil.io/v1"}
    assert (await ask(cluster, "Pod", "p", 40, **evil)).reason == "over-quota"
    assert (await ask(cluster, "Pod", "p", 40, user=CONTROLLER, **evil)).reason == "over-quota"
    node = {"by": ("Node", "node-uid")}
    assert (await ask(cluster, "Pod", "p", 40, **node)).reason == "over-quota"
    assert (await ask(cluster, "Pod", "p-node-1", 4, **node)).reason == "fits"
    await cluster.see_node("node-1", "node-uid")
    await show(cluster, "Pod", "p-node-1", 4, by=("Node", "node-uid"))
    assert cluster.used() == 4000


async def test_mirror_pods_are_their_nodes(cluster):
    agent = {"user": "system:node:node-1", "groups": ("system:nodes", "system:authenticated")}
    mirror = {"by": ("Node", "node-uid")}
    assert (
        await ask(cluster, "Pod", "proxy-node-1", 40, user=agent, **mirror)
    ).reason == "not-governed"
    await show(cluster, "Pod", "proxy-node-1", 40, **mirror)
    await cluster.see_node("node-1", "node-uid")
    cluster.clock.after(20)
    await show(cluster, "Job", "other", 1)

    assert cluster.used() == 1000
    await show(cluster, "Pod", "lone", 2, by=("Node", "no-such-node"))
    cluster.clock.after(20)
    await show(cluster, "Job", "other", 2)
    assert cluster.used() == 4000
