"""Reviews answered from the journals, and the keeper that keeps them true; in memory."""

import pytest

from bus.envelope import MALFORMED, Event
from bus.errors import WrongExpectationError
from bus.events.admissions import AdmissionDecided
from bus.events.namespaces import NamespaceObserved
from bus.events.pods import Owner
from bus.memory import MemoryTransport
from projections.engine.store import Store, engine
from reactors.admission.deciding.rate import Buckets, Rate
from reactors.admitting import following
from tests.reactors.cluster import QUOTA, START_US, Cluster, job
from tests.reactors.engine.restoring import archive

pytestmark = pytest.mark.simulated


@pytest.fixture
async def cluster():
    async with Cluster() as running:
        await running.see_quota("team", {"limits.cpu": 4000})
        yield running


async def test_what_names_no_quota_passes_and_is_not_recorded(cluster):
    answer = await cluster.ask("a", 100, quota="")

    assert (answer.allowed, answer.reason) == (True, "not-governed")
    assert cluster.said("decided") == []


async def test_what_fits_is_charged_and_what_does_not_is_told_why(cluster):
    assert (await cluster.ask("a", 3)).allowed
    answer = await cluster.ask("b", 2)

    assert not answer.allowed
    assert answer.reason == "over-quota"
    assert answer.message == (
        "quota 'team': limits.cpu asks for 2 more, 3 of 4 are used, 1 too much; "
        "this namespace holds 3, others 0 (over-quota)"
    )
    assert cluster.used() == 3000


async def test_the_same_ask_twice_charges_once(cluster):
    for _ in range(3):
        assert (await cluster.ask("a", 3)).allowed

    assert cluster.used() == 3000


async def test_a_dry_run_is_answered_and_charges_nothing(cluster):
    assert (await cluster.ask("a", 4, dry_run=True)).allowed
    assert not (await cluster.ask("a", 5, dry_run=True)).allowed

    assert cluster.used() == 0
    assert cluster.said("decided") == []


async def test_a_fall_is_admitted_and_stays_charged_until_it_is_seen(cluster):
    await cluster.ask("a", 4)
    await cluster.see("a", 4)
    cluster.clock.after(100)

    assert (await cluster.ask("a", 1)).allowed
    assert cluster.used() == 4000
    await cluster.see("a", 1)
    assert cluster.used() == 1000


async def test_a_deleted_object_gives_back_what_it_held(cluster):
    await cluster.ask("a", 4)
    await cluster.see("a", 4)
    await cluster.lose("a")

    assert cluster.used() == 0
    assert [r["reason"] for e in cluster.said("released") for r in e["releases"]] == ["vanished"]


async def test_what_was_never_stored_lapses_with_a_list_that_began_after_the_deadline(cluster):
    await cluster.ask("a", 4)
    cluster.clock.after(74)
    await cluster.list()
    assert cluster.used() == 4000
    cluster.clock.after(1)
    await cluster.list()

    assert cluster.used() == 0


async def test_what_passed_unseen_is_charged_when_it_is_seen(cluster):
    await cluster.see("a", 6)

    assert cluster.used() == 6000
    decided = cluster.said("decided")
    assert [(d["verdict"], d["reason"]) for d in decided] == [("adopted", "ungoverned")]
    assert not (await cluster.ask("b", 1)).allowed


async def test_what_moves_to_another_quota_is_charged_there_and_then_given_back(cluster):
    await cluster.see_quota("other", {"limits.cpu": 4000})
    await cluster.ask("a", 3)
    await cluster.see("a", 3)
    cluster.clock.after(100)
    assert (await cluster.ask("a", 3, quota="other")).allowed
    assert (cluster.used("team"), cluster.used("other")) == (3000, 3000)
    await cluster.see("a", 3, quota="other")

    assert (cluster.used("team"), cluster.used("other")) == (0, 3000)


async def test_an_unknown_quota_is_refused_by_name(cluster):
    answer = await cluster.ask("a", 1, quota="nobody")

    assert answer.reason == "quota-unknown"
    assert "there is no quota 'nobody'" in answer.message


async def test_what_hangs_below_a_charged_owner_is_not_charged_again(cluster):
    await cluster.ask("a", 2)
    await cluster.see("a", 2)
    pod = job("p", 2)
    pod["metadata"]["ownerReferences"] = [
        {"apiVersion": "batch/v1", "kind": "Job", "name": "a", "uid": "a", "controller": True}
    ]
    pod["spec"] = pod["spec"]["template"]["spec"]
    of_pod = {"group": "", "resource": "pods", "kind": "Pod"}

    of_pod["groups"] = ("system:serviceaccounts:kube-system",)

    assert (await cluster.review(pod, **of_pod)).reason == "covered"
    assert cluster.used() == 2000
    pod["spec"]["containers"][0]["resources"]["limits"]["cpu"] = "5"
    assert (await cluster.review(pod, **of_pod)).reason == "over-quota"
    assert cluster.used() == 2000


async def test_d16_a_scale_is_charged_by_what_one_replica_asks(cluster):
    await cluster.see("web", 1, kind="Deployment", per_replica={"limits.cpu": 1000}, replicas=1)
    scale = {"metadata": {"name": "web", "namespace": "ns", "uid": "web"}, "spec": {"replicas": 4}}
    of_scale = {
        "operation": "UPDATE", "group": "apps", "resource": "deployments", "kind": "Scale",
        "subresource": "scale",
    }  # fmt: skip

    assert (await cluster.review(scale, **of_scale)).allowed
    assert cluster.used() == 4000
    scale["spec"]["replicas"] = 5
    assert not (await cluster.review(scale, **of_scale)).allowed


OF_SCALE = {
    "operation": "UPDATE", "group": "apps", "resource": "deployments", "kind": "Scale",
    "subresource": "scale",
}  # fmt: skip
OF_DEPLOYMENT = {"operation": "UPDATE", "group": "apps", "resource": "deployments"}


def scale(version, replicas, before=0):
    metadata = {"name": "web", "namespace": "ns", "uid": "web", "resourceVersion": str(version)}
    sizes = {"object": replicas, "old_object": before}
    return {key: {"metadata": metadata, "spec": {"replicas": n}} for key, n in sizes.items()}


def deployment(cpu, version, quota="team"):
    found = job("web", cpu, quota)
    found["metadata"]["resourceVersion"] = str(version)
    found["spec"]["replicas"] = 0
    return found


async def see_web(cluster, cpu, **fields):
    await cluster.see(
        "web", 0, kind="Deployment", per_replica={"limits.cpu": 1000 * cpu}, replicas=0, **fields
    )


@pytest.mark.parametrize("after", [deployment(2, 10), deployment(1, 10, "other")])
async def test_a_scale_waits_until_the_change_of_what_one_replica_asks_for_is_seen(cluster, after):
    await cluster.see_quota("other", {"limits.cpu": 4000})
    cluster.skip_versions(10)
    await see_web(cluster, 1)
    assert (await cluster.review(after, old_object=deployment(1, 10), **OF_DEPLOYMENT)).allowed

    # It landed as version 11, which nobody said yet: one replica may ask for more than was seen.
    answer = await cluster.review(**scale(11, 4), **OF_SCALE)
    assert (answer.allowed, answer.reason, answer.code) == (False, "object-unseen", 409)
    assert (await cluster.review(**scale(11, 4, before=4), **OF_SCALE)).allowed
    assert (await cluster.review(**scale(10, 4), **OF_SCALE)).allowed
    await see_web(cluster, 2)
    assert (await cluster.review(**scale(11, 4), **OF_SCALE)).reason == "over-quota"


async def test_a_scale_does_not_wait_for_versions_that_differ_by_their_status_only(cluster):
    cluster.skip_versions(10)
    await see_web(cluster, 1)
    same = deployment(1, 10)
    assert (await cluster.review(same, old_object=same, **OF_DEPLOYMENT)).allowed

    assert (await cluster.review(**scale(17, 4), **OF_SCALE)).allowed


async def test_a_change_that_never_landed_lets_a_scale_pass_once_a_list_shows_the_object_as_before(
    cluster,
):
    cluster.skip_versions(10)
    await see_web(cluster, 1)
    await cluster.review(deployment(2, 10), old_object=deployment(1, 10), **OF_DEPLOYMENT)
    assert (await cluster.review(**scale(12, 4), **OF_SCALE)).reason == "object-unseen"
    cluster.clock.after(75)
    await cluster.list("web", kind="Deployment")

    assert (await cluster.review(**scale(12, 4), **OF_SCALE)).allowed


async def test_a_webhook_that_does_not_keep_knows_what_complete_lists_show(cluster):
    cluster.skip_versions(10)
    await see_web(cluster, 1)
    await cluster.see("lost", 1)
    await cluster.review(deployment(2, 10), old_object=deployment(1, 10), **OF_DEPLOYMENT)
    cluster.clock.after(75)
    await cluster.list("web", kind="Deployment")
    await cluster.list(kind="Job")
    beside = following(
        cluster.transport, cluster.clock, cluster="c1", source="webhook/2", keeps=False
    )
    async with beside as other:
        # Marks are for who keeps: here nobody would ever take them away.
        assert (set(), set()) == (other.view.changed, other.view.changed_quotas)
        assert {"web"} == set(other.view.objects)
        cluster.admission = other
        assert (await cluster.review(**scale(12, 4), **OF_SCALE)).allowed


async def test_a_quota_is_admitted_in_its_tree_and_counts_when_it_is_seen(cluster):
    child = {
        "metadata": {"name": "child", "uid": "uid-child"},
        "spec": {"parentBizGroup": "team", "hard": {"limits.cpu": "3"}},
    }
    of_quota = {
        "group": "bursar.io", "version": "v1alpha1", "resource": "bizgroupresourcequotas",
        "kind": "BizGroupResourceQuota",
    }  # fmt: skip

    assert (await cluster.review(child, **of_quota)).allowed
    assert cluster.used("team") == 3000
    assert (await cluster.ask("a", 1, quota="child")).reason == "quota-unready"
    await cluster.see_quota("child", {"limits.cpu": 3000}, parent="team")
    assert (await cluster.ask("a", 1, quota="child")).allowed
    assert (await cluster.ask("b", 2)).reason == "over-quota"


async def test_a_quota_that_was_never_stored_gives_back_its_claim(cluster):
    child = {
        "metadata": {"name": "child", "uid": "uid-child"},
        "spec": {"parentBizGroup": "team", "hard": {"limits.cpu": "3"}},
    }
    await cluster.review(
        child, group="bursar.io", version="v1alpha1", resource="bizgroupresourcequotas"
    )
    cluster.clock.after(75)
    await cluster.list("uid-team", kind="BizGroupResourceQuota")

    assert cluster.used("team") == 0


async def test_d13_a_namespace_that_is_mapped_keeps_its_workloads_in_its_quota(cluster):
    await cluster.see_quota("other", {"limits.cpu": 4000})
    labels = {"biz.group.resource.quota": "team"}
    await cluster.say(
        NamespaceObserved(uid="n", name="ns", resource_version="1", labels=labels), "ns"
    )

    assert (await cluster.ask("a", 1, quota="other")).reason == "quota-not-yours"
    assert (await cluster.ask("b", 1, quota="")).allowed
    assert cluster.used("team") == 1000


@pytest.mark.parametrize("number", [1, 3], ids=["stale", "ahead"])
async def test_e11_a_decision_out_of_turn_is_parked_and_charges_nothing(cluster, number):
    forged = AdmissionDecided(
        number=number, quota="team", uid="x", kind="Job", namespace="ns", name="x",
        verdict="admitted", reason="fits", charge={"limits.cpu": 4000},
    )  # fmt: skip
    await cluster.say(forged, "biz/team")

    assert cluster.admission.journals.parked == 1
    assert cluster.used() == 0
    assert (await cluster.ask("a", 4)).allowed


async def test_e11_an_unreadable_decision_is_parked(cluster):
    event = Event(
        "c1", "admission.decided", "biz/team", "bad", "test", START_US, b'{"number": "x"}'
    )
    await cluster.transport.publish([event])

    assert (await cluster.ask("a", 4)).allowed
    assert cluster.admission.journals.parked == 1


UNKNOWN = Event("c1", "admission.auctioned", "biz/team", "new", "test", START_US, b"{}")


async def test_an_entry_of_a_newer_version_is_named_and_passed_over(cluster, caplog):
    await cluster.transport.publish([UNKNOWN])

    assert (await cluster.ask("a", 4)).allowed
    assert cluster.admission.journals.parked == 1
    assert "type='admission.auctioned'" in caplog.text
    # The recorded decisions say what they stood behind.
    assert cluster.rederived().reviews.same == 1


class Malformed(MemoryTransport):
    """A bus in which a malformed message stands in a journal; readers see no journal's name in it."""

    async def publish(self, events, *, expect=None):
        stands = next((e.sequence for e in self.events if e.type == MALFORMED), 0)
        if expect is not None and stands:
            if expect.last_sequence < stands:
                raise WrongExpectationError(subject=expect.subject, last_sequence=stands)
            expect = None
        return await super().publish(events, expect=expect)


async def test_a_malformed_message_in_a_journal_holds_up_nobody():
    transport = Malformed()
    async with Cluster(transport) as cluster:
        await cluster.see_quota("team", {"limits.cpu": 4000})
        sequence = len(transport.events) + 1
        transport.events.append(
            Event("c1", MALFORMED, "", "m", "bus", 0, b"", 1, sequence, "no headers")
        )
        await cluster.see_node("a", "uid-a")
        assert (await cluster.ask("a", 4)).allowed
        assert [sequence] == [one["based_on"] for one in cluster.said("decided")]
        assert cluster.rederived().reviews.same == 1


async def test_a_start_from_the_archive_appends_behind_an_entry_that_nobody_knows(tmp_path):
    async with Cluster() as cluster:
        await cluster.see_quota("team", {"limits.cpu": 4000})
        await cluster.transport.publish([UNKNOWN])
    store = Store(engine(f"sqlite:///{tmp_path / 'ledger.db'}"))
    archive(store, cluster.transport.events)
    async with Cluster(cluster.transport, ledger=store) as started:
        assert (await started.ask("a", 4)).allowed
    store.close()


OF_POD = {"group": "", "resource": "pods", "kind": "Pod"}


def pod(uid, cpu, *owner, kind="Job"):
    made = job(uid, cpu)
    made["spec"] = made["spec"]["template"]["spec"]
    for name in owner:
        reference = {"apiVersion": "batch/v1", "kind": kind, "name": name, "uid": name}
        made["metadata"]["ownerReferences"] = [{**reference, "controller": True}]
    return made


async def test_a_pod_that_nobody_answers_for_is_charged_until_it_ends(cluster):
    assert (await cluster.review(pod("p", 3), **OF_POD)).allowed
    assert cluster.used() == 3000
    await cluster.see_pod("p", "3")
    assert cluster.used() == 3000
    await cluster.see_pod("p", "3", phase="Succeeded")

    assert cluster.used() == 0


async def test_d20_a_pod_that_passed_unseen_is_charged_and_given_back(cluster):
    await cluster.see_pod("p", "3")
    assert cluster.used() == 3000
    await cluster.lose_pod("p")

    assert cluster.used() == 0


async def test_d6_a_pod_may_not_be_resized_beyond_what_its_owner_is_charged_for(cluster):
    """With its siblings, which are as large as they were: the quota has no more than the owner is charged with."""
    await cluster.ask("a", 4)
    await cluster.see("a", 4, per_replica={"limits.cpu": 2000, "requests.cpu": 2000}, replicas=2)
    for uid in "pq":
        await cluster.see_pod(uid, "2", owner=Owner(kind="Job", name="a", uid="a"))
    old = pod("p", 2, "a")
    resize = {**OF_POD, "operation": "UPDATE", "subresource": "resize", "old_object": old}

    assert (await cluster.review(pod("p", 2, "a"), **resize)).allowed
    assert (await cluster.review(pod("p", 3, "a"), **resize)).reason == "over-quota"


async def test_d6_a_pod_of_its_own_is_charged_for_what_a_resize_adds(cluster):
    await cluster.review(pod("p", 3), **OF_POD)
    resize = {**OF_POD, "operation": "UPDATE", "subresource": "resize"}

    assert (await cluster.review(pod("p", 4), **resize)).allowed
    assert cluster.used() == 4000
    assert (await cluster.review(pod("p", 5), **resize)).reason == "over-quota"


async def test_d14_what_asks_more_often_than_its_quota_may_is_told_to_wait(cluster):
    rate = Rate(per_second=2, burst=3)
    cluster.admission.handler._buckets = Buckets(rate)

    answers = [await cluster.ask(f"a{n}", 9) for n in range(5)]
    assert [a.reason for a in answers] == ["over-quota"] * 3 + ["too-many-requests"] * 2
    cluster.clock.after(1)
    answers = [await cluster.ask(f"b{n}", 9) for n in range(3)]
    assert [a.reason for a in answers] == ["over-quota"] * 2 + ["too-many-requests"]


async def test_d16_an_autoscaler_is_held_to_what_fits_at_its_most(cluster):
    await cluster.see("web", 1, kind="Deployment", per_replica={"limits.cpu": 1000}, replicas=1)
    scaler = {
        "metadata": {"name": "web", "namespace": "ns", "uid": "hpa"},
        "spec": {
            "maxReplicas": 4,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        },
    }
    of_scaler = {"group": "autoscaling", "version": "v2", "resource": "horizontalpodautoscalers"}

    assert (await cluster.review(scaler, **of_scaler)).allowed
    scaler["spec"]["maxReplicas"] = 5
    answer = await cluster.review(scaler, **of_scaler)
    assert answer.reason == "over-quota"
    assert answer.message.startswith("at maxReplicas 5, Deployment 'web' would not fit: quota")


async def test_d18_nothing_depends_on_what_a_patch_can_remove(cluster):
    await cluster.ask("a", 3)
    bare = job("a", 3)
    bare["metadata"] |= {"finalizers": [], "annotations": {}}

    assert (await cluster.review(bare, operation="UPDATE", old_object=job("a", 3))).allowed
    assert cluster.used() == 3000


async def test_a_state_from_before_the_ask_that_is_received_late_releases_nothing(cluster):
    await cluster.ask("a", 1)
    await cluster.see("a", 1)
    await cluster.see("a", 1, created="2026-01-01T00:00:00Z")
    cluster.clock.after(100)
    bigger = job("a", 4)
    bigger["metadata"]["resourceVersion"] = "1000"
    assert (await cluster.review(bigger, operation="UPDATE")).allowed
    cluster.clock.after(100)

    await cluster.see("a", 1)  # Its version is far below 1000.
    assert cluster.used() == 4000
    cluster.skip_versions(2000)
    await cluster.see("a", 1)
    assert cluster.used() == 1000


async def test_a_list_settles_what_was_asked_long_enough_before_it(cluster):
    await cluster.ask("a", 1)
    await cluster.see("a", 1)
    bigger = job("a", 4)
    bigger["metadata"]["resourceVersion"] = "1000"
    await cluster.review(bigger, operation="UPDATE")
    cluster.clock.after(75)
    await cluster.list("a")

    assert cluster.used() == 1000


async def test_what_was_seen_after_a_list_was_asked_for_is_not_lost_by_it(cluster):
    await cluster.see("a", 3)
    before_us = cluster.clock.us - 1
    await cluster.list(at_us=before_us)

    assert cluster.used() == 3000


async def test_what_is_seen_after_a_list_without_it_is_there(cluster):
    await cluster.see("a", 3)
    cluster.clock.after(1)
    await cluster.list()
    assert cluster.used() == 0
    cluster.clock.after(1)
    await cluster.see("a", 3)

    assert cluster.used() == 3000


async def test_what_was_deleted_never_comes_back(cluster):
    await cluster.see("a", 3)
    cluster.clock.after(1)
    await cluster.list()
    await cluster.lose("a")
    cluster.clock.after(1)
    await cluster.see("a", 3)

    assert cluster.used() == 0


async def test_what_is_seen_while_the_keeper_appends_is_worked_off_too(cluster):
    journals, append = cluster.admission.journals, cluster.admission.journals.append
    seen = []

    async def slowly(draft, ids):
        if not seen:
            seen.append(1)
            await cluster.see("a", 2, settles=False)
            await journals.reached((await cluster.transport.head()).last_sequence)
        await append(draft, ids)

    await cluster.see("a", 3)
    journals.append = slowly
    await cluster.see("a", 1)
    await cluster.settled()

    assert cluster.used() == 2000


@pytest.mark.parametrize(
    "edit",
    [{"annotations": {"a": "b"}}, {"labels": {QUOTA: "team", "color": "red"}}, {"generation": 9}],
    ids=["annotation", "somebody's label", "nothing"],
)
async def test_what_changes_nothing_that_is_charged_is_not_written_down(edit):
    """Stamps of activity, annotations and labels of others: no entry, and no list that would have to settle it."""
    async with Cluster() as cluster:
        await cluster.see_quota("team", {"limits.cpu": 4_000})
        await cluster.ask("a", 3)
        await cluster.see("a", 3)
        entries = len(cluster.said("decided"))
        before, after = job("a", 3), job("a", 3)
        after["metadata"] |= edit
        answer = await cluster.review(after, old_object=before, operation="UPDATE")

        assert (answer.allowed, answer.reason) == (True, "unchanged")
        assert len(cluster.said("decided")) == entries
        bigger = await cluster.review(job("a", 5), old_object=before, operation="UPDATE")
        assert bigger.reason == "over-quota"


async def test_a_list_that_settles_every_ask_is_the_last_that_is_asked_for():
    """Raised and lowered before either was seen: one list after the API server's deadline, and then no more."""
    async with Cluster() as cluster:
        await cluster.see_quota("team", {"limits.cpu": 9_000})
        await cluster.ask("a", 2)
        await cluster.see("a", 2)
        await cluster.ask("a", 5, operation="UPDATE", old_object=job("a", 2))
        await cluster.ask("a", 3, operation="UPDATE", old_object=job("a", 5))
        await cluster.see("a", 3)
        keeper = cluster.admission.keeper
        cluster.clock.after(80)
        assert keeper.due(cluster.clock.us) == {"Job"}

        await cluster.list("a")
        assert cluster.used() == 3_000
        cluster.clock.after(3600)
        assert keeper.due(cluster.clock.us) == set()
