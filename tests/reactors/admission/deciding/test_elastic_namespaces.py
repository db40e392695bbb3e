"""ElasticQuotas as their community writes them: one in a namespace, and no label anywhere."""

import msgspec
import pytest

from bus.events.nodes import NodeObserved
from bus.events.observations import ObjectsListed
from bus.kube.watch.labels import LabelPolicy
from bus.kube.watch.records import Record
from bus.sources import quotas
from tests.reactors.cluster import QUOTA, Cluster, job

pytestmark = pytest.mark.simulated

PREFIX = "quota.scheduling.koordinator.sh/"
KIND = "ElasticQuota"
KINDS = (KIND, "BizGroupResourceQuota")


@pytest.fixture
async def cluster():
    async with Cluster() as running:
        node = NodeObserved(uid="n", name="n", resource_version="1", allocatable={"cpu": "100"})
        await running.say(node, "n")
        yield running


async def apply(cluster, name, namespace, cpu=4, uid="", **metadata):
    """The API server stores a quota, and its source says so."""
    object = {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": KIND,
        "metadata": {
            "name": name, "namespace": namespace, "uid": uid or f"uid-{namespace}-{name}",
            "resourceVersion": str(next(cluster._versions)),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            **metadata,
        },
        "spec": {"min": {"cpu": "1"}, "max": {"cpu": str(cpu)}},
    }  # fmt: skip
    record = Record("ADDED", msgspec.json.encode(object), cluster.clock.us, "c1", "test")
    await cluster.transport.publish([quotas.translate(record, LabelPolicy(), kind=KIND)])
    await cluster.settled()


async def ask(cluster, uid, cpu, namespace="ns", **labels):
    """A Job with these labels, as a review brings it."""
    made = job(uid, cpu, "", namespace)
    made["metadata"]["labels"] = labels
    return await cluster.review(made)


async def reasons(cluster, *namespaces):
    """What a Job of one core is told in each."""
    return [(await ask(cluster, f"j-{one}", 1, one)).reason for one in namespaces]


async def test_the_only_elastic_quota_of_a_namespace_governs_what_names_none(cluster):
    """From the record of the API server to the answer of a review, without a label on anything."""
    await apply(cluster, "team", "ns")

    assert (await ask(cluster, "a", 3)).reason == "fits"
    answer = await ask(cluster, "b", 2)
    assert (answer.allowed, answer.reason) == (False, "over-quota")
    assert "quota 'team'" in answer.message
    assert await reasons(cluster, "elsewhere") == ["not-governed"]


async def test_what_ran_before_its_quota_was_made_is_charged_when_the_quota_is_seen(cluster):
    await cluster.see("before", 3, quota="")
    await apply(cluster, "team", "ns")
    await cluster.settled()

    assert (await ask(cluster, "after", 2)).reason == "over-quota"


async def test_a_label_goes_before_the_quota_of_the_namespace(cluster):
    await apply(cluster, "team", "ns", cpu=1)
    await apply(cluster, "other", "elsewhere", cpu=8)

    assert (await ask(cluster, "a", 2, **{PREFIX + "name": "other"})).reason == "fits"
    assert (await ask(cluster, "b", 2)).reason == "over-quota"


async def test_a_quota_called_like_the_namespace_goes_before_one_that_lists_it(cluster):
    """Koordinator's order: its label, the name of the namespace, the annotation; at last the only one there."""
    listed = {PREFIX + "namespaces": '["ns", "second"]'}
    await apply(cluster, "ns", "ns", cpu=1)
    await apply(cluster, "listing", "quotas", cpu=9, annotations=listed)
    await apply(cluster, "alone", "second", cpu=1)

    assert (await ask(cluster, "a", 2, "ns")).reason == "over-quota"
    assert (await ask(cluster, "b", 2, "second")).reason == "fits"


async def test_of_several_in_one_namespace_pods_choose_by_label(cluster):
    for name in ("a", "b"):
        await apply(cluster, name, "quotas")
    await apply(cluster, "top", "ns", labels={PREFIX + "is-parent": "true"})
    await apply(cluster, "leaf", "ns", labels={PREFIX + "parent": "top"})

    assert await reasons(cluster, "quotas", "ns") == ["not-governed", "fits"]


async def test_of_two_quotas_of_one_name_the_first_created_counts(cluster):
    """A tenant who may create quotas in his own namespace takes over nobody else's, and is told why he may not start."""
    later = {"creationTimestamp": "2026-01-02T00:00:00Z"}
    await apply(cluster, "team", "mine", cpu=90, **later)
    await apply(cluster, "team", "ns", cpu=1)
    await cluster.settled()

    assert (await ask(cluster, "a", 2)).reason == "over-quota"
    answer = await ask(cluster, "b", 1, "mine")
    assert (answer.allowed, answer.reason) == (False, "quota-namesake")
    assert "another name" in answer.message


async def test_what_exists_beside_a_namesake_is_charged_to_nobodys_quota(cluster):
    """Else whoever may create quotas in his own namespace fills another team's with what runs there already."""
    await apply(cluster, "team", "ns")
    await cluster.see("mine", 3, quota="")
    await apply(cluster, "team", "theirs", creationTimestamp="2026-01-02T00:00:00Z")
    await cluster.see("escaped", 3, quota="", namespace="theirs")
    await cluster.settled()

    assert (await ask(cluster, "more", 1)).reason == "fits"
    assert (await ask(cluster, "above", 1)).reason == "over-quota"


async def test_when_the_first_is_gone_its_namesake_counts(cluster):
    await apply(cluster, "team", "ns")
    await apply(cluster, "team", "mine", creationTimestamp="2026-01-02T00:00:00Z")
    cluster.clock.after(100)
    fact = ObjectsListed(kind=KIND, resource_version="99", uids=("uid-mine-team",))
    await cluster.say(fact, "list")

    assert await reasons(cluster, "ns", "mine") == ["not-governed", "fits"]


async def test_a_change_that_limits_nothing_is_not_decided(cluster):
    """Other annotations, those of its status among them: nothing is recorded, and nothing waits to be seen."""
    await apply(cluster, "team", "ns")
    object = {
        "metadata": {"name": "team", "namespace": "ns", "uid": "uid-ns-team"},
        "spec": {"min": {"cpu": "1"}, "max": {"cpu": "4"}},
    }  # fmt: skip
    noted = {
        **object,
        "metadata": {**object["metadata"], "annotations": {PREFIX + "runtime": "{}"}},
    }
    raised = {**object, "spec": {"max": {"cpu": "5"}}}
    of_quota = {
        "group": "scheduling.sigs.k8s.io", "version": "v1alpha1", "resource": "elasticquotas",
        "kind": KIND, "operation": "UPDATE", "old_object": object,
    }  # fmt: skip
    before = len(cluster.said("declared"))

    assert (await cluster.review(noted, **of_quota)).allowed
    assert len(cluster.said("declared")) == before
    assert (await cluster.review(raised, **of_quota)).allowed
    assert len(cluster.said("declared")) == before + 1


async def test_a_parent_quota_holds_quotas_and_no_workloads(cluster):
    await apply(cluster, "top", "quotas", labels={PREFIX + "is-parent": "true"})

    assert (await ask(cluster, "a", 1, **{PREFIX + "name": "top"})).reason == "parent-quota"


@pytest.mark.parametrize("is_back", [False, True], ids=["to the business quota", "back"])
async def test_what_is_relabeled_to_a_quota_of_the_same_name_and_another_kind_moves(
    cluster, is_back
):
    """It was charged in both until it was gone: what is seen named its quota without the kind."""
    await apply(cluster, "team", "quotas", cpu=8)
    await cluster.see_quota("team", {"limits.cpu": 8000})
    labels = [{"labels": {f"{PREFIX}name": "team"}}, {"labels": {QUOTA: "team"}}]
    before, after = reversed(labels) if is_back else labels

    def used():
        places = cluster.admission.journals.places
        trees = {kind: cluster.admission.journals.tree(places[kind, "team"]) for kind in KINDS}
        return [trees[kind].nodes["team"].used("limits.cpu") for kind in KINDS]

    await cluster.see("a", 3, **before)
    await cluster.see("b", 2, **before)
    await cluster.see("a", 3, **after)
    await cluster.see("b", 2, **after)
    assert used() == ([5000, 0] if is_back else [0, 5000])
    await cluster.lose("a")
    assert used() == ([2000, 0] if is_back else [0, 2000])
    await cluster.see("b", 2, **before)
    await cluster.lose("b")
    assert used() == [0, 0]
