"""What a workload's controller can still make is what its quota is charged with, through the webhook and what is seen."""

import pytest

from bus.sources.catalogue import WORKLOADS
from tests.reactors.admission.below import CONTROLLER, OF, ask, made, owner, show
from tests.reactors.admission.train_jobs import Trainer
from tests.reactors.cluster import QUOTA

pytestmark = pytest.mark.simulated

OF_CLUSTER = {"group": "ray.io", "version": "v1", "resource": "rayclusters", "kind": "RayCluster"}
OF_TAIL = {"by": ("Job", "tail")}


@pytest.fixture
async def cluster():
    async with Trainer() as running:
        await running.see_quota("team", {"limits.cpu": 10_000})
        # Somebody follows pods.
        await running.list_pods()
        yield running


async def see_job(cluster, name="tail", pods=6, generation=1, **status):
    item = made("Job", name, 1, pods, generation=generation)
    await cluster.see_object(WORKLOADS["Job"], {**item, "status": status})


async def begin(cluster):
    """A Job of six pods of one core, of which each is seen to run."""
    assert (await cluster.review(made("Job", "tail", 1, 6), **OF["Job"])).allowed
    await see_job(cluster)
    for number in range(6):
        await show(cluster, "Pod", f"p{number}", 1, **OF_TAIL)


async def finish(cluster, *numbers):
    for number in numbers:
        await show(cluster, "Pod", f"p{number}", 1, phase="Succeeded", **OF_TAIL)


async def test_a_job_gives_back_what_its_controller_makes_no_more(cluster):
    """kueue#78: of six pods five have succeeded."""
    await begin(cluster)
    await finish(cluster, *range(5))
    assert cluster.used() == 6000
    await see_job(cluster, active=1, succeeded=5)

    assert cluster.used() == 1000
    assert (await ask(cluster, "Job", "next", 1, 5)).reason == "fits"


async def test_no_status_frees_what_lives(cluster):
    """Whoever may write the status says that all have succeeded: the pods run on, and one more is asked about."""
    await begin(cluster)
    await see_job(cluster, succeeded=6)
    assert cluster.used() == 6000

    await ask(cluster, "Job", "next", 1, 4)
    answer = await ask(cluster, "Pod", "p6", 1, **OF_TAIL, user=CONTROLLER)
    assert (False, "over-quota") == (answer.allowed, answer.reason)


async def test_what_a_user_takes_away_is_awaited_although_pods_succeeded(cluster):
    """The controller may not have heard of it: only what falls by the status alone falls at once."""
    await begin(cluster)
    for number in range(6):
        await cluster.lose_pod(f"p{number}", owner("Job", "tail"))
    await see_job(cluster, pods=1, generation=2, succeeded=0)

    assert cluster.used() == 6000


async def test_what_another_controller_manages_is_charged_nothing_and_says_so(cluster):
    item = made("Job", "far", 1, 20)
    item["spec"]["managedBy"] = "kueue.x-k8s.io/multikueue"
    answer = await cluster.review(item, **OF["Job"])
    await cluster.see_object(WORKLOADS["Job"], item)

    assert (True, 0) == (answer.allowed, cluster.used())
    assert "'kueue.x-k8s.io/multikueue'" in answer.warnings[0]
    assert b'"managed_elsewhere"' in cluster.transport.events[-1].body


def ray(name, cores, **spec):
    head = {"containers": [{"name": "ray", "resources": {"limits": {"cpu": str(cores)}}}]}
    metadata = {"name": name, "namespace": "ns", "uid": name, "labels": {QUOTA: "team"}}
    return {"metadata": metadata, "spec": {"headGroupSpec": {"template": {"spec": head}}, **spec}}


async def test_a_head_that_fits_where_its_autoscaler_does_not_is_refused_at_once(cluster):
    """kueue#12405: its own head pod would be refused for ever, and the cluster hold the whole quota."""
    full = await cluster.review(ray("auto", 10, enableInTreeAutoscaling=True), **OF_CLUSTER)
    assert (False, "over-quota") == (full.allowed, full.reason)
    assert "500m too much" in full.message or "0.5 too much" in full.message

    assert (await cluster.review(ray("plain", 10), **OF_CLUSTER)).allowed
