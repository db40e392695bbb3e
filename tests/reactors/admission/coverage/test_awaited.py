"""What a controller may still make of what its object asked for before: it goes on until it hears that this asks for less.

What it makes passes, covered, with nothing in the journal, wherever that was not heard of either. So the owner holds what was
not seen of it until the API server's deadline.
"""

import asyncio

import pytest

from bus.events.pods import PodsListed
from projections.quota_trees.shape import LANDED_US
from tests.reactors.admission.below import CONTROLLER, OF, ask, begin, made, owner, show
from tests.reactors.cluster import QUOTA, Cluster

pytestmark = pytest.mark.simulated

OF_JOB = {"by": ("Job", "job")}


@pytest.fixture
async def cluster():
    async with Cluster() as running:
        await running.see_quota("team", {"limits.cpu": 6000})
        # Somebody follows pods.
        await running.list_pods()
        yield running


async def later(cluster, *pods, seconds=76):
    """That much later, when a complete list shows these pods."""
    cluster.clock.after(seconds)
    await cluster.list_pods(*pods)


async def test_a_pod_that_lands_behind_the_delete_of_its_owner_is_charged_all_the_time(cluster):
    """It was reviewed before anybody heard of the delete; the quota was given to another one, and both ran."""
    await begin(cluster, "Job", "job", 2, 3)
    assert (await ask(cluster, "Pod", "p", 2, **OF_JOB, user=CONTROLLER)).reason == "covered"
    await cluster.lose("job")

    assert (await ask(cluster, "Job", "next", 2)).reason == "over-quota"
    await show(cluster, "Pod", "p", 2, **OF_JOB)
    assert cluster.used() == 6000
    await later(cluster, "p")
    assert cluster.used() == 2000
    await cluster.lose_pod("p", owner("Job", "job"))
    assert cluster.used() == 0
    assert cluster.said("decided")[-1]["verdict"] == "refused", "nothing is adopted"


async def test_what_comes_is_no_longer_awaited(cluster):
    await begin(cluster, "Job", "job", 2, 3)
    await show(cluster, "Pod", "first", 2, **OF_JOB)
    await cluster.lose("job")
    await show(cluster, "Pod", "second", 2, **OF_JOB)
    assert cluster.used() == 6000

    for name, left in (("first", 4000), ("second", 2000)):
        await cluster.lose_pod(name, owner("Job", "job"))
        assert cluster.used() == left
    await later(cluster)
    assert cluster.used() == 0


async def test_an_owner_whose_pods_were_all_seen_gives_back_at_once_what_ends(cluster):
    await begin(cluster, "Job", "job", 2, 3)
    for number in range(3):
        await show(cluster, "Pod", f"p{number}", 2, **OF_JOB)
    await cluster.lose("job")

    for number in range(3):
        await cluster.lose_pod(f"p{number}", owner("Job", "job"))
    assert cluster.used() == 0


async def test_of_what_waits_for_its_finalizers_nothing_more_is_made_and_nothing_held(cluster):
    """As where its pods are deleted first (``Foreground``): a JobSet starts anew in the same quota at once."""
    await begin(cluster, "Job", "job", 2, 3)
    for number in range(3):
        await show(cluster, "Pod", f"p{number}", 2, **OF_JOB)
    await show(cluster, "Job", "job", 2, 3, is_terminating=True)
    for number in range(3):
        await cluster.lose_pod(f"p{number}", owner("Job", "job"))
    assert cluster.used() == 6000
    await cluster.lose("job")

    assert cluster.used() == 0


@pytest.mark.parametrize("is_known", [True, False])
async def test_what_was_not_made_when_the_deletion_was_asked_for_is_held(cluster, is_known):
    """Its pods that are on their way land behind its end, whether it was seen before or not."""
    await ask(cluster, "Job", "job", 2, 3)
    if is_known:
        await show(cluster, "Job", "job", 2, 3)
    await show(cluster, "Pod", "first", 2, **OF_JOB)
    await show(cluster, "Job", "job", 2, 3, is_terminating=True)
    await cluster.lose_pod("first", owner("Job", "job"))
    assert cluster.used() == 6000
    await cluster.lose("job")

    assert cluster.used() == 4000
    await show(cluster, "Pod", "second", 2, **OF_JOB)
    await later(cluster, "second")
    assert cluster.used() == 2000


async def test_a_job_that_has_ended_gives_back_at_once(cluster):
    """Its controller says so when its pods have ended, and makes no more."""
    await begin(cluster, "Job", "job", 2, 3)
    await show(cluster, "Job", "job", 0, 0, suspended=True)

    assert cluster.used() == 0


async def test_a_job_that_is_suspended_while_its_pods_are_made_holds_them(cluster):
    await begin(cluster, "Job", "job", 2, 3)
    await show(cluster, "Job", "job", 0, 0, suspended=True, wanted={"limits.cpu": 6000})

    assert cluster.used() == 6000
    await later(cluster)
    assert cluster.used() == 0


async def test_time_alone_gives_nothing_back_and_a_list_is_asked_for(cluster):
    """Nobody watched meanwhile, say: what landed in that time was not seen, and only a list shows that nothing did."""
    await begin(cluster, "Job", "job", 2, 3)
    await cluster.lose("job")
    keeper, lost_us = cluster.admission.keeper, cluster.clock.us
    cluster.clock.after(600)
    await cluster.see_node("node", "node")
    assert cluster.used() == 6000
    assert (keeper.due(lost_us + LANDED_US - 1), keeper.due(cluster.clock.us)) == (set(), {"Pod"})

    await show(cluster, "Pod", "late", 2, **OF_JOB)
    await cluster.list_pods("late")
    assert (cluster.used(), keeper.due(cluster.clock.us)) == (2000, set())


async def test_each_part_is_given_back_by_its_own_list(cluster):
    """However often its object asks for less: who scales all day would hold for ever what was missing once."""
    await begin(cluster, "Job", "job", 1, 6)
    await show(cluster, "Job", "job", 1, 4)
    cluster.clock.after(50)
    await show(cluster, "Job", "job", 1, 1)
    assert cluster.used() == 6000

    for seconds, left in ((26, 4000), (50, 1000)):
        await later(cluster, seconds=seconds)
        assert cluster.used() == left


async def test_a_list_is_not_asked_for_what_came_meanwhile(cluster):
    await begin(cluster, "Job", "job", 2, 2)
    await cluster.lose("job")
    for name in ("first", "second"):
        await show(cluster, "Pod", name, 2, **OF_JOB)
    cluster.clock.after(600)

    assert cluster.admission.keeper.due(cluster.clock.us) == set()


async def test_a_list_of_which_a_part_is_missing_gives_nothing_back(cluster):
    await begin(cluster, "Job", "job", 2, 3)
    await cluster.lose("job")
    cluster.clock.after(76)
    part = PodsListed(resource_version="90", uids=(), until="m", parts=2)
    await cluster.say(part, "pods-90-1")
    assert cluster.used() == 6000

    rest = PodsListed(resource_version="90", uids=(), first="m", parts=2)
    await cluster.say(rest, "pods-90-2")
    assert cluster.used() == 0


async def test_where_nobody_follows_pods_nothing_is_awaited():
    async with Cluster() as cluster:
        await cluster.see_quota("team", {"limits.cpu": 6000})
        await begin(cluster, "Job", "job", 2, 3)
        await cluster.lose("job")

        assert cluster.used() == 0


@pytest.mark.parametrize("what", ["scaled", "edited", "deleted"])
async def test_a_replica_set_that_is_not_full_holds_the_rest_of_its_deployments_charge(
    cluster, what
):
    """Its pods are made in the seconds in which its Deployment is scaled down."""
    of_web, of_set = {"by": ("Deployment", "web")}, {"by": ("ReplicaSet", "web-1")}
    await begin(cluster, "Deployment", "web", 2, 3)
    await begin(cluster, "ReplicaSet", "web-1", 2, 3, **of_web, user=CONTROLLER)
    await show(cluster, "Pod", "first", 2, **of_set)
    cluster.clock.after(100)
    if what == "deleted":
        await cluster.lose("web", kind="Deployment")
        await cluster.lose("web-1", kind="ReplicaSet")
    else:
        size = (2, 1) if what == "scaled" else (0.5, 2)
        await show(cluster, "Deployment", "web", *size)
        await show(cluster, "ReplicaSet", "web-1", *size, **of_web)
    assert cluster.used() == 6000

    await show(cluster, "Pod", "late", 2, **of_set)
    assert cluster.used() == 6000
    await later(cluster, "first", "late")
    assert cluster.used() == 4000


async def test_a_deployment_holds_what_was_not_seen_of_the_sets_that_it_asked_for(cluster):
    """The watch of one kind may be ahead of another's: the Deployment is seen scaled down before its ReplicaSet is seen."""
    await begin(cluster, "Deployment", "web", 2, 3)
    cluster.clock.after(100)
    await show(cluster, "Deployment", "web", 2, 1)
    assert cluster.used() == 6000

    await show(cluster, "ReplicaSet", "web-1", 2, 3, by=("Deployment", "web"))
    assert (cluster.used(), cluster.said("decided")[-1]["verdict"]) == (6000, "admitted")
    await show(cluster, "ReplicaSet", "web-1", 2, 1, by=("Deployment", "web"))
    assert cluster.used() == 6000
    await later(cluster)
    assert cluster.used() == 2000


async def test_a_model_that_pods_name_themselves_is_not_missing(cluster):
    """Their owner asks for cores of no model; theirs have one."""
    await begin(cluster, "Job", "job", 2, 3)
    labels = {QUOTA: "team", f"{QUOTA}/cpu-type": "A4"}
    for number in range(3):
        await show(cluster, "Pod", f"p{number}", 2, **OF_JOB, labels=labels)
    await cluster.lose("job")
    for number in range(3):
        await cluster.lose_pod(f"p{number}", owner("Job", "job"))

    assert cluster.used() == 0


async def test_sets_that_are_asked_for_beyond_their_deployment_are_written_down(cluster):
    """What it is charged for more than it asks for falls as soon as that was seen to be used no more."""
    await cluster.see_quota("team", {"limits.cpu": 8000})
    of_web = {"by": ("Deployment", "web"), "user": CONTROLLER}
    await begin(cluster, "Deployment", "web", 2, 3)
    await begin(cluster, "ReplicaSet", "old", 2, 3, **of_web)
    for number in range(3):
        await show(cluster, "Pod", f"p{number}", 2, by=("ReplicaSet", "old"))
    assert (await ask(cluster, "ReplicaSet", "new", 2, 1, **of_web)).reason == "raised"
    await show(cluster, "ReplicaSet", "old", 2, 2, by=("Deployment", "web"))
    await cluster.lose_pod("p0", owner("ReplicaSet", "old"))
    entries = len(cluster.said("decided"))

    assert (await ask(cluster, "ReplicaSet", "newer", 2, 1, **of_web)).reason == "covered"
    [written] = cluster.said("decided")[entries:]
    assert (written["child"]["name"], cluster.used()) == ("newer", 8000)


async def test_a_pod_that_names_the_model_of_its_owner_itself_is_charged_once(cluster):
    """Its ReplicaSet asks for cores of no model, and they counted for the owner's beside those that the pod names."""
    await cluster.see_quota("team", {"limits.cpu": 10_000, "limits.cpu.A4": 10_000})
    labels = {QUOTA: "team", f"{QUOTA}/cpu-type": "A4"}
    web = made("Deployment", "web", 2, 3)
    web["metadata"]["labels"] = labels
    assert (await cluster.review(web, **OF["Deployment"])).allowed
    await show(cluster, "Deployment", "web", 2, 3, labels=labels)
    await show(cluster, "ReplicaSet", "web-1", 2, 3, by=("Deployment", "web"))
    by = {"by": ("ReplicaSet", "web-1")}
    for number in range(2):
        await show(
            cluster, "Pod", f"p{number}", 2, **by, labels=labels if number else {QUOTA: "team"}
        )

    assert (cluster.used(), cluster.used(key="limits.cpu.A4")) == (6000, 6000)
    await show(cluster, "ReplicaSet", "web-1", 2, 1, by=("Deployment", "web"))
    await show(cluster, "Deployment", "web", 2, 1, labels=labels)
    cluster.clock.after(100)
    await cluster.lose_pod("p0", owner("ReplicaSet", "web-1"))
    assert (cluster.used(), cluster.used(key="limits.cpu.A4")) == (4000, 4000), "the third may land"
    await later(cluster, "p1")
    assert (cluster.used(), cluster.used(key="limits.cpu.A4")) == (2000, 2000)


MOVED = {"labels": {QUOTA: "other"}}


async def test_what_is_raised_below_a_workload_that_moves_is_charged_where_it_comes_to():
    """By several processes at once: one lets its ReplicaSet be scaled, another lets it move with what lived below it before."""
    async with Cluster() as one, Cluster(one.transport) as other:
        other.clock, other._reviews = one.clock, one._reviews
        await one.see_quota("root", {"limits.cpu": 24_000})
        await one.see_quota("team", {"limits.cpu": 20_000}, parent="root")
        await one.see_quota("other", {"limits.cpu": 4000}, parent="root")
        await begin(one, "Deployment", "web", 2, 0)
        await begin(one, "ReplicaSet", "web-1", 2, 0, by=("Deployment", "web"), user=CONTROLLER)
        one.skip_versions(60)
        old = made("Deployment", "web", 2, 0, version=50)
        moves = {"version": 50, "before": old, "quota": "other"}
        of_web = {"by": ("Deployment", "web"), "version": 55}
        grows = {**of_web, "before": made("ReplicaSet", "web-1", 2, 0, **of_web)}

        answers = await asyncio.gather(
            ask(one, "ReplicaSet", "web-1", 2, 7, **grows),
            ask(other, "Deployment", "web", 2, 0, **moves),
        )
        allowed = [answer.allowed for answer in answers]
        assert allowed.count(True) == 1, "the second to be decided knows of the first"
        assert answers[allowed.index(False)].reason in ("over-quota", "object-unseen")


async def test_nothing_is_made_below_a_workload_that_may_move_until_that_was_seen(cluster):
    """It is charged there with what lived below it when it was asked."""
    await cluster.see_quota("other", {"limits.cpu": 4000})
    of_web = {"by": ("Deployment", "web"), "user": CONTROLLER}
    await begin(cluster, "Deployment", "web", 2, 3)
    cluster.clock.after(100)
    await show(cluster, "Deployment", "web", 2, 0)
    smaller = made("Deployment", "web", 2, 0, version=70)
    answer = await ask(
        cluster, "Deployment", "web", 2, 0, before=smaller, version=70, quota="other"
    )
    assert answer.reason == "over-quota", "six cores of it may still land"
    await later(cluster)
    cluster.skip_versions(60)
    answer = await ask(
        cluster, "Deployment", "web", 2, 0, before=smaller, version=70, quota="other"
    )
    assert answer.allowed

    answer = await ask(cluster, "ReplicaSet", "web-1", 2, 3, **of_web)
    assert (answer.reason, answer.allowed) == ("object-unseen", False)
    cluster.skip_versions(71)
    await show(cluster, "Deployment", "web", 2, 0, **MOVED)
    assert (await ask(cluster, "ReplicaSet", "web-1", 2, 2, **of_web)).reason == "raised"
    assert (cluster.used(), cluster.used("other")) == (0, 4000)
