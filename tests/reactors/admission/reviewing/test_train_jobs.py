"""TrainJobs of Kubeflow Trainer: charged as a whole by their training runtime, whoever changes it, whichever is seen first."""

import pytest

from bus.events.quotas import Queue
from bus.kube.kinds import QUEUE_ANNOTATION
from tests.bus.kube.runtimes import job, runtime
from tests.reactors.admission.train_jobs import (
    NAMESPACED,
    OF_JOB_SET,
    OF_TRAIN_JOB,
    TRAINER,
    Trainer,
    job_set,
    torch,
    train_job,
)
from tests.reactors.cluster import QUOTA

pytestmark = pytest.mark.simulated


@pytest.fixture
async def cluster():
    async with Trainer() as running:
        await running.see_quota("team", {"limits.cpu": 10_000})
        yield running


async def test_a_train_job_is_charged_as_a_whole_before_its_job_set_is_made(cluster):
    await cluster.see_runtime(torch())
    await cluster.begin(train_job(trainer={"numNodes": 4}))
    assert cluster.used() == 8000

    refused = await cluster.review(train_job("more"), **OF_TRAIN_JOB)
    assert (refused.allowed, refused.reason) == (False, "over-quota")
    assert "limits.cpu asks for 4 more, 8 of 10 are used" in refused.message


async def test_its_job_set_is_within_its_charge(cluster):
    await cluster.see_runtime(torch())
    await cluster.begin(train_job())
    made = await cluster.review(job_set(), **OF_JOB_SET, **TRAINER)
    await cluster.see_job_set(job_set())

    assert (made.allowed, made.reason, cluster.used()) == (True, "covered", 4000)


async def test_a_runtime_that_was_not_seen_is_refused_in_every_quota(cluster):
    refused = await cluster.review(train_job(), **OF_TRAIN_JOB)
    assert (refused.allowed, refused.reason) == (False, "runtime-unseen")
    assert "Make the runtime first" in refused.message

    assert (await cluster.review(train_job(quota=""), **OF_TRAIN_JOB)).reason == "not-governed"
    await cluster.see_runtime(torch())
    assert (await cluster.review(train_job(), **OF_TRAIN_JOB)).allowed


async def test_a_runtime_that_cannot_be_read_is_refused_like_one_that_is_not_there(cluster):
    await cluster.see_runtime(runtime(job("node", step="trainer")))

    assert (await cluster.review(train_job(), **OF_TRAIN_JOB)).reason == "runtime-unseen"


async def test_a_runtime_is_that_of_the_job_s_own_namespace_or_of_the_cluster_as_it_says(cluster):
    await cluster.see_runtime(torch(1), source=NAMESPACED)
    own = await cluster.review(train_job("own", kind="TrainingRuntime"), **OF_TRAIN_JOB)

    assert (own.allowed, cluster.used()) == (True, 2000)
    assert (await cluster.review(train_job(), **OF_TRAIN_JOB)).reason == "runtime-unseen"


async def test_a_runtime_that_grows_after_its_job_was_admitted_makes_no_job_set_beyond_the_quota(
    cluster,
):
    """Who may edit a TrainingRuntime in a namespace could else run any number of pods on the charge of a small job."""
    await cluster.see_runtime(torch(1), source=NAMESPACED)
    await cluster.begin(train_job(kind="TrainingRuntime"))
    await cluster.see_runtime(torch(9), source=NAMESPACED)

    refused = await cluster.review(job_set(cores=9), **OF_JOB_SET, **TRAINER)
    assert (refused.allowed, refused.reason, cluster.used()) == (False, "over-quota", 2000)
    more = await cluster.review(job_set(cores=3), **OF_JOB_SET, **TRAINER)
    assert (more.allowed, cluster.used()) == (True, 6000)


async def test_a_runtime_that_changes_later_changes_nothing_of_a_job_that_runs(cluster):
    await cluster.see_runtime(torch(2))
    await cluster.begin(train_job())
    await cluster.see_runtime(torch(4))
    await cluster.see_train_job(train_job(), labels={QUOTA: "team", "status": "changed"})

    assert cluster.used() == 4000
    changed = {**train_job(), "metadata": {**train_job()["metadata"], "resourceVersion": "99"}}
    changed["metadata"]["annotations"] = {"a": "b"}
    update = {"operation": "UPDATE", "old_object": train_job()}
    assert (await cluster.review(changed, **OF_TRAIN_JOB, **update)).allowed
    assert cluster.used() == 4000


async def test_a_job_that_was_seen_before_its_runtime_is_charged_once_that_is_seen(cluster):
    await cluster.see_train_job(train_job())
    assert cluster.used() == 0
    await cluster.see_runtime(torch())

    assert cluster.used() == 4000


@pytest.mark.parametrize("ends", [True, False], ids=["and is gone", "and stays"])
async def test_a_job_that_names_another_runtime_or_none_waits_for_its_former_one_no_more(
    cluster, ends
):
    await cluster.see_train_job(train_job())
    await cluster.see_train_job(train_job(runtimeRef={"name": "other"}))
    await cluster.see_train_job(train_job(podTemplateOverrides=[{}]))
    if ends:
        await cluster.see_train_job(train_job(), type="DELETED")
    for name in ("torch", "other"):
        await cluster.see_runtime(torch(), name=name)

    assert cluster.used() == 0


async def test_a_suspended_job_asks_for_nothing_and_for_all_of_it_when_it_is_resumed(cluster):
    await cluster.see_runtime(torch(3))
    await cluster.begin(train_job(suspend=True))
    await cluster.begin(train_job("other"))
    assert cluster.used() == 6000

    update = {"operation": "UPDATE", "old_object": train_job(suspend=True)}
    refused = await cluster.review(train_job(suspend=False), **OF_TRAIN_JOB, **update)
    assert (refused.allowed, refused.reason) == (False, "over-quota")


async def test_an_ended_job_gives_its_charge_back(cluster):
    await cluster.see_runtime(torch())
    await cluster.begin(train_job())
    ended = {"status": {"conditions": [{"type": "Complete", "status": "True"}]}}
    await cluster.see_train_job(train_job() | ended)

    assert cluster.used() == 0


async def test_a_job_of_an_older_api_is_told_what_to_do(cluster):
    refused = await cluster.review(train_job(podTemplateOverrides=[{}]), **OF_TRAIN_JOB)

    assert (refused.allowed, refused.reason) == (False, "demand-unreadable")
    assert "install its CRDs of 2.2 or later" in refused.message


async def test_what_waits_in_a_queue_wants_what_its_runtime_says_whichever_is_seen_first():
    async with Trainer() as cluster:
        await cluster.see_quota("team", {"limits.cpu": 5_000}, queue=Queue(hold=True))
        held = train_job(suspend=True)
        held["metadata"]["annotations"] = {QUEUE_ANNOTATION: "team"}
        assert (await cluster.review(held, **OF_TRAIN_JOB)).allowed
        await cluster.see_train_job(held)
        await cluster.see_runtime(torch())

        ask = cluster.admission.view.objects["t"].ask
        assert (ask.held, ask.demand, ask.wanted["limits.cpu"], ask.runtime.pods) == (True, {}, 4000, 2)  # fmt: skip
