"""Pods below one owner that several webhook processes are asked about at once: none of them has seen what another let pass."""

import asyncio

import pytest

from tests.reactors.admission.below import CONTROLLER, ask, begin, made, show
from tests.reactors.cluster import QUOTA, Cluster

pytestmark = pytest.mark.simulated

BY = {"by": ("ReplicaSet", "web-1"), "user": CONTROLLER}


@pytest.fixture
async def webhooks():
    """Two processes of one history."""
    async with Cluster() as one, Cluster(one.transport) as other:
        other.clock = one.clock
        await one.see_quota("team", {"limits.cpu": 6000})
        await begin(one, "Deployment", "web", 2, 3)
        await begin(one, "ReplicaSet", "web-1", 2, 3, by=("Deployment", "web"), user=CONTROLLER)
        yield one, other


async def asked(webhooks):
    """The answers to three pods of a ReplicaSet, by turns, before any of them is seen."""
    for one in webhooks:
        await one.settled()
    return [
        (await ask(webhooks[number % 2], "Pod", f"new-{number}", 2, **BY)).reason
        for number in range(3)
    ]


async def test_pods_that_a_replica_set_asks_for_pass_without_an_entry(webhooks):
    """However they are dealt to processes, there are no more of them than that."""
    entries = len(webhooks[0].said("decided"))

    assert await asked(webhooks) == ["covered"] * 3
    assert len(webhooks[0].said("decided")) == entries


async def test_beside_one_that_ends_pods_pass_in_one_order(webhooks):
    """A pod that the ReplicaSet adopted ends when it likes, and is replaced at once: three more and that one are too many."""
    by = {"by": ("ReplicaSet", "web-1")}
    deletion = "2026-01-01T00:00:00Z"
    await show(webhooks[0], "Pod", "old", 1, **by, deletion=deletion)

    assert await asked(webhooks) == ["covered", "covered", "over-quota"]
    assert webhooks[0].used() == 6000


async def test_pods_beyond_what_was_seen_to_be_asked_for_are_written_down(webhooks):
    """The ReplicaSet was scaled, and no process has seen that yet."""
    await show(webhooks[0], "ReplicaSet", "web-1", 2, 1, by=("Deployment", "web"))
    entries = len(webhooks[0].said("decided"))

    assert await asked(webhooks) == ["covered"] * 3
    [written] = webhooks[0].said("decided")[entries:]
    assert (written["reason"], written["child"]["name"]) == ("covered", "new-2")


async def test_a_model_that_a_user_writes_on_a_covered_object_is_charged_to_nobody(webhooks):
    """Its pods ask for none; the charge stayed for as long as the label did."""
    cluster = webhooks[0]
    types = {QUOTA: "team", f"{QUOTA}/cpu-type": "A4"}
    await show(cluster, "ReplicaSet", "web-1", 2, 3, by=("Deployment", "web"), labels=types)

    assert (cluster.used(), cluster.used(key="limits.cpu.A4")) == (6000, 0)


async def test_a_child_whose_first_try_lost_the_race_and_that_is_refused_counts_no_more(webhooks):
    """It counted below its owner for 75 s, so that the next one was refused as well."""
    one, other = webhooks
    await one.see_quota("team", {"limits.cpu": 8000})
    for number in range(3):
        await show(one, "Pod", f"old-{number}", 2, by=("ReplicaSet", "web-1"))
    await other.settled()
    answers = await asyncio.gather(one.ask("job", 2), ask(other, "Pod", "new", 2, **BY))
    assert [answer.reason for answer in answers] == ["fits", "over-quota"]

    await one.see("job", 2)
    await one.lose("job")
    await other.settled()
    assert (await ask(other, "Pod", "next", 2, **BY)).allowed
    await other.settled()
    assert one.used() == 8000


async def adopted(cluster, uid, by):
    """The answer to a ReplicaSet's controller that takes in a bare pod of another quota."""
    before = made("Pod", uid, 2, version=500, quota="spare")
    how = {"by": by, "quota": "spare", "before": before, "version": 500, "user": CONTROLLER}
    return (await ask(cluster, "Pod", uid, 2, **how)).reason


async def test_what_several_processes_let_a_replica_set_adopt_has_to_fit_together(webhooks):
    """Each let pass as much as the set asks for, before it saw what the other one did."""
    one, other = webhooks
    await one.see_quota("spare", {"limits.cpu": 12_000})
    for number in range(6):
        await show(one, "Pod", f"p{number}", 2, labels={QUOTA: "spare"})
    await other.settled()

    answers = [await adopted(webhooks[n % 2], f"p{n}", BY["by"]) for n in range(6)]
    assert answers == ["covered"] * 3 + ["over-quota"] * 3


async def test_an_adoption_waits_for_the_replica_set_that_was_not_seen_yet(webhooks):
    """Another process had let the set pass a moment before, and its controller adopts at once."""
    one, other = webhooks
    await one.see_quota("spare", {"limits.cpu": 12_000})
    await show(one, "ReplicaSet", "web-1", 2, 1, by=("Deployment", "web"))
    await show(one, "Pod", "p", 2, labels={QUOTA: "spare"})
    by_web = {"by": ("Deployment", "web"), "user": CONTROLLER}
    await other.settled()
    assert (await ask(one, "ReplicaSet", "web-2", 2, 2, **by_web)).reason == "covered"

    by = ("ReplicaSet", "web-2")
    assert await adopted(other, "p", by) == "owner-unseen"
    assert (await ask(other, "Pod", "new", 2, by=by, user=CONTROLLER)).reason == "owner-unseen"
    await show(one, "ReplicaSet", "web-2", 2, 2, by=("Deployment", "web"))
    await other.settled()
    assert await adopted(other, "p", by) == "covered"


async def test_beside_a_larger_pod_that_was_adopted_pods_pass_in_one_order(webhooks):
    """The set makes no more pods than it asks for, and with that one they are more. It is taken in while nobody answers."""
    one, other = webhooks
    await one.see_quota("spare", {"limits.cpu": 12_000})
    await show(one, "Pod", "p", 3, labels={QUOTA: "spare"})
    before = made("Pod", "p", 3, version=500, quota="spare")
    how = {"before": before, "version": 500, "quota": "spare"} | BY
    assert (await ask(one, "Pod", "p", 3, **how)).reason == "over-quota"
    one.skip_versions(600)
    await show(one, "Pod", "p", 3, by=BY["by"], labels={QUOTA: "spare"})
    await other.settled()

    answers = [(await ask(webhooks[n], "Pod", f"new-{n}", 2, **BY)).reason for n in range(2)]
    assert answers == ["covered", "over-quota"]


async def test_a_raise_waits_until_its_child_is_seen_below_the_owner_that_was_raised():
    """The pod was seen before its ReplicaSet: the charge fell for a moment while the pod ran."""
    async with Cluster() as one, Cluster(one.transport) as other:
        other.clock = one.clock
        await one.see_quota("team", {"limits.cpu": 2000})
        await begin(one, "Deployment", "web", 2, 0)
        await ask(one, "ReplicaSet", "set", 2, 0, by=("Deployment", "web"), user=CONTROLLER)
        by = {"by": ("ReplicaSet", "set")}
        assert (await ask(one, "Pod", "p", 2, **by, user=CONTROLLER)).reason == "raised"
        await show(one, "Pod", "p", 2, **by)
        await other.settled()
        assert one.used() == 2000

        await show(one, "ReplicaSet", "set", 2, 0, by=("Deployment", "web"))
        await other.settled()
        assert one.used() == 2000
        assert [e["verdict"] for e in one.said("decided")].count("adopted") == 0


async def test_a_replica_set_that_was_not_seen_yet_adopts_nothing(webhooks):
    """Whether the pod is larger than those that it makes is not known before."""
    one, _ = webhooks
    await one.see_quota("team", {"limits.cpu": 20_000})
    await begin(one, "Pod", "big", 4)
    await ask(one, "ReplicaSet", "web-2", 2, 1, by=("Deployment", "web"), user=CONTROLLER)
    before = made("Pod", "big", 4, version=50)
    adopts = {"by": ("ReplicaSet", "web-2"), "before": before, "version": 50, "user": CONTROLLER}

    answer = await ask(one, "Pod", "big", 4, **adopts)
    assert (answer.reason, answer.code) == ("owner-unseen", 409)
