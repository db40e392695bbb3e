"""What states no limits: a quota of limits does not let it pass for nothing.

Covers every way in: creates, growing updates, the removal of limits from what runs, scales, autoscalers, resumption, what waits
in a queue, limits of 0, and what was there before anybody asked.
"""

import msgspec
import pytest

from bus.events.pods import PodObserved
from bus.events.quotas import Queue
from bus.kube.kinds import table
from bus.kube.watch.labels import LabelPolicy
from bus.kube.watch.records import Record
from bus.sources import pods, workloads
from tests.reactors.cluster import QUOTA, Cluster, job

pytestmark = pytest.mark.simulated

OF_DEPLOYMENT = {"group": "apps", "resource": "deployments", "kind": "Deployment"}
OF_POD = {"group": "", "resource": "pods", "kind": "Pod"}


@pytest.fixture
async def cluster():
    async with Cluster() as running:
        await running.see_quota("team", {"limits.cpu": 10_000, "limits.memory": 2**30})
        yield running


def container(name, requests=None, limits=None):
    return {"name": name, "resources": {"requests": requests or {}, "limits": limits or {}}}


def deployment(*containers, replicas=1, name="web", version="1", **metadata):
    about = {"name": name, "namespace": "ns", "uid": name, "labels": {QUOTA: "team"}}
    template = {"spec": {"containers": list(containers)}}
    return {
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {**about, "resourceVersion": version, **metadata},
        "spec": {"replicas": replicas, "template": template},
    }  # fmt: skip


STATED = {"cpu": "1", "memory": "1Mi"}
WITHOUT = container("b", {"cpu": "300"})


async def create(cluster, *containers, **fields):
    return await cluster.review(deployment(*containers, **fields), **OF_DEPLOYMENT)


async def update(cluster, new, old):
    return await cluster.review(new, old_object=old, operation="UPDATE", **OF_DEPLOYMENT)


async def test_what_states_no_limits_is_refused_with_the_containers_and_keys(cluster):
    answer = await create(cluster, container("a", limits=STATED), WITHOUT)

    assert (answer.allowed, answer.reason) == (False, "must-specify")
    assert answer.message == (
        "quota 'team': must specify limits.cpu for: b; must specify limits.memory for: b (must-specify)"
    )
    assert cluster.used() == 0


async def test_only_what_the_quota_limits_has_to_be_stated(cluster):
    await cluster.see_quota("cores", {"limits.cpu": 10_000, "requests.memory": 2**30})
    stated = deployment(container("a", {"memory": "1Mi"}, {"cpu": "1"}))
    stated["metadata"]["labels"][QUOTA] = "cores"

    assert (await cluster.review(stated, **OF_DEPLOYMENT)).allowed


@pytest.mark.parametrize("model", ["", "A4"])
async def test_a_typed_key_asks_it_of_that_model_only(cluster, model):
    await cluster.see_quota("typed", {"limits.cpu.A4": 10_000})
    found = deployment(container("a", {"cpu": "1"}))
    labels = {QUOTA: "typed"} | ({f"{QUOTA}/cpu-type": model} if model else {})
    found["metadata"]["labels"] = labels
    answer = await cluster.review(found, **OF_DEPLOYMENT)

    assert answer.allowed is not bool(model)
    assert ("must specify limits.cpu.A4 for: a" in answer.message) is bool(model)


async def test_a_limit_of_zero_is_no_limit_as_the_kubelet_has_it(cluster):
    answer = await create(cluster, container("a", limits={**STATED, "cpu": "0"}))

    assert answer.reason == "must-specify"


async def test_a_quota_may_charge_requests_instead(cluster):
    await cluster.see_quota("team", {"limits.cpu": 10_000}, charges_requests=True)

    assert (await create(cluster, container("a", {"cpu": "4"}), replicas=2)).allowed
    assert cluster.used() == 8000
    assert (await create(cluster, WITHOUT, name="big")).reason == "over-quota"
    # What requests nothing either would be charged nothing, and use the whole node.
    answer = await create(cluster, container("nothing"), name="free")
    assert answer.reason == "must-specify"
    assert "must specify limits.cpu for: nothing" in answer.message


async def test_limits_cannot_be_taken_away_from_what_runs(cluster):
    before = deployment(container("a", limits=STATED))
    assert (await create(cluster, container("a", limits=STATED))).allowed
    after = deployment(container("a"))

    assert (await update(cluster, after, before)).reason == "must-specify"


async def test_what_is_there_without_limits_may_be_edited_and_shrunk_and_not_grown(cluster):
    old = deployment(container("a", {"cpu": "1"}), replicas=3)

    edited = deployment(container("a", {"cpu": "1"}), replicas=3, annotations={"note": "mine"})
    assert (await update(cluster, edited, old)).allowed
    assert (
        await update(cluster, deployment(container("a", {"cpu": "1"}), replicas=2), old)
    ).allowed
    grown = deployment(container("a", {"cpu": "1"}), replicas=4)
    assert (await update(cluster, grown, old)).reason == "must-specify"


def translated(found, kind=table.DEPLOYMENT):
    record = Record("ADDED", msgspec.json.encode(found), 0, "c1", "test")
    return workloads.translate(record, LabelPolicy(), kind=kind)


async def test_what_was_there_before_is_charged_by_its_requests_and_scaled_by_them(cluster):
    found = deployment(container("a", {"cpu": "2"}), replicas=2)
    await cluster.transport.publish([translated(found)])
    await cluster.settled()
    assert cluster.used() == 4000
    assert [(d["verdict"], d["reason"]) for d in cluster.said("decided")] == [
        ("adopted", "ungoverned")
    ]

    metadata = {"name": "web", "namespace": "ns", "uid": "web", "resourceVersion": "1"}
    of_scale = {**OF_DEPLOYMENT, "kind": "Scale", "subresource": "scale", "operation": "UPDATE"}
    three, two, one = ({"metadata": metadata, "spec": {"replicas": n}} for n in (3, 2, 1))
    assert (await cluster.review(three, old_object=two, **of_scale)).reason == "must-specify"
    assert (await cluster.review(one, old_object=two, **of_scale)).allowed


async def test_what_waits_has_to_state_what_it_is_charged_when_it_starts(cluster):
    await cluster.see_quota("team", {"limits.cpu": 10_000}, queue=Queue(hold=True))
    waiting = job("a", 1)
    waiting["metadata"]["annotations"] = {"bursar.io/queue": "team"}
    waiting["spec"]["suspend"] = True
    assert (await cluster.review(waiting)).reason == "held"
    waiting["spec"]["template"]["spec"]["containers"] = [container("a")]

    assert (await cluster.review(waiting)).reason == "must-specify"


def pod(uid, **spec):
    about = {"name": uid, "namespace": "ns", "uid": uid, "labels": {QUOTA: "team"}}
    return {"metadata": {**about, "resourceVersion": "7"}, "spec": spec, "status": {}}


async def test_a_pod_has_its_defaults_of_a_limit_range_when_it_is_reviewed_and_seen(cluster):
    """The API server applies a LimitRange to pods before it asks webhooks: what a pod has is what counts."""
    ranged = container("a", {"cpu": "500m", "memory": "1Mi"}, {"cpu": "2", "memory": "1Mi"})
    assert (await cluster.review(pod("p", containers=[ranged]), **OF_POD)).allowed
    assert cluster.used() == 2000


async def test_a_pod_that_is_seen_without_limits_is_charged_by_its_requests(cluster):
    found = pod("p", containers=[container("a", {"cpu": "3"})], nodeName="n")
    record = Record("ADDED", msgspec.json.encode(found), cluster.clock.us, "c1", "test")
    event = pods.translate(record, LabelPolicy())
    assert PodObserved.read(event).uid == "p"
    await cluster.transport.publish([event])
    await cluster.settled()

    assert cluster.used() == 3000
