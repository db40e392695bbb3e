"""Steps of a training job are decided once, at the event that makes them due, and compared with what its operator does."""

import pytest

from bus.events.decisions import CreateReplica
from reactors.engine.verify import rederive
from reactors.jobs.reactor import reactor
from tests.factories import CLUSTER
from tests.reactors.jobs.scene import EXIT, Training4, begun


async def test_the_pods_of_a_new_job_are_decided_at_once_and_once():
    scene = Training4()
    await scene.begin()
    await scene.see_job("Created")
    await scene.tick()
    await scene.tick()

    assert scene.created() == ["train-worker-0", "train-worker-1"]


async def test_a_job_that_runs_as_decided_agrees_in_every_step():
    scene = await begun()

    assert scene.agreed == {("create", "agreed"): 2, ("report", "agreed"): 1}


async def test_a_failed_pod_is_deleted_and_made_again_by_its_exit_code():
    scene = await begun(**EXIT)
    await scene.see_pod(1, "Failed", exits={"tensorflow": 137})

    assert scene.deleted() == [("train-worker-1", "failed_retryable")]

    await scene.lose_pod(1)
    assert scene.created()[2:] == ["train-worker-1"]
    assert scene.state.jobs["j"].replaced == 1


@pytest.mark.parametrize("services", [0, 1, 2])
async def test_the_operator_goes_on_when_all_pods_or_all_services_of_a_type_were_seen(services):
    scene = Training4(**EXIT)
    await scene.begin()
    await scene.list_services()
    await scene.see_job("Created")
    for index in range(services):
        await scene.see_service(index)
    await scene.see_pod(0, "Failed", exits={"tensorflow": 137})
    wanted = [("train-worker-0", "failed_retryable")]
    assert scene.deleted() == (wanted if services == 2 else [])

    await scene.see_pod(1)
    assert scene.deleted() == wanted


async def test_who_gives_up_a_service_that_is_not_seen_goes_on():
    scene = Training4(**EXIT)
    await scene.begin()
    await scene.list_services()
    await scene.see_job("Created")
    assert len(scene.state.jobs["j"].steps) == 4
    for _ in range(40):
        await scene.tick()

    assert {one.step for one in scene.state.jobs["j"].steps.values()} == {"create"}


async def test_a_permanent_exit_code_fails_the_job():
    scene = await begun(**EXIT)
    await scene.see_pod(1, "Failed", exits={"tensorflow": 1})

    assert scene.deleted() == []
    assert scene.reported()[-1] == "failed"


async def test_a_step_that_the_operator_does_not_take_is_missed_and_not_decided_again():
    scene = Training4()
    await scene.begin()
    await scene.see_job("Created")
    for _ in range(40):
        await scene.tick()

    assert scene.agreed == {("create", "missed"): 2}
    assert len(scene.created()) == 2
    assert {one.what for one in scene.state.agreements.differences} == {
        "train-worker-0",
        "train-worker-1",
    }


async def test_a_status_that_the_operator_does_not_write_is_missed_once():
    """It was decided again every five minutes while the operator was away."""
    scene = Training4()
    await scene.begin()
    await scene.see_job("Created")
    await scene.see_pod(0, "Running")
    await scene.see_pod(1, "Running")
    for _ in range(120):
        await scene.tick()

    assert scene.agreed["report", "missed"] == 1
    reported = len(scene.reported())
    await scene.see_pod(1, "Failed", exits={"tensorflow": 1})
    assert len(scene.reported()) == reported + 1


async def test_a_pod_that_nobody_decided_is_unforeseen():
    scene = await begun()
    await scene.see_pod(2)

    assert scene.agreed["create", "unforeseen"] == 1


async def test_a_pod_of_another_namespace_is_none_of_the_job():
    """Anybody may write the uid of a job into a pod of their own."""
    scene = Training4()
    await scene.begin()
    await scene.see_job("Created")
    before = scene.decisions(CreateReplica)
    await scene.see_pod(0, namespace="other")
    await scene.see_pod(0, "Failed", namespace="other", exits={"tensorflow": 1})
    await scene.tick()

    assert (scene.decisions(CreateReplica), scene.reported(), scene.agreed) == (before, [], {})
    assert scene.state.seen("j").pods == ()


async def test_pods_from_before_the_policy_prove_nothing():
    scene = Training4()
    await scene.see_job("Created")
    await scene.see_pod(0)
    await scene.begin()
    await scene.tick()

    assert scene.created() == ["train-worker-1"]
    assert scene.agreed == {}


async def test_time_alone_fails_a_job_past_its_deadline():
    scene = await begun(deadline_s=60)
    await scene.see_job(start="2026-10-26T08:00:00Z")
    for _ in range(6):
        await scene.tick()

    assert scene.reported()[-1] == "failed"
    assert {reason for _, reason in scene.deleted()} == {"limit_reached"}


async def test_a_finished_job_is_deleted_when_its_time_is_over():
    scene = await begun(ttl_s=30)
    await scene.see_job("Created", "Succeeded", completion="2026-10-26T08:00:00Z")
    for _ in range(5):
        await scene.tick()

    assert len(scene.job_deletions()) == 1


async def test_a_suspended_job_loses_its_pods():
    scene = await begun()
    await scene.see_job(spec={"suspend": True})

    assert {reason for _, reason in scene.deleted()} == {"suspended"}


async def test_nothing_is_decided_while_it_is_off():
    scene = Training4()
    await scene.begin("off")
    await scene.see_job("Created")
    await scene.tick()

    assert scene.created() == []


async def test_every_decision_is_derived_again_from_the_history():
    scene = await begun(**EXIT)
    await scene.see_pod(1, "Failed", exits={"tensorflow": 137})
    await scene.lose_pod(1)
    await scene.tick()
    found = rederive(lambda: iter(scene.transport.events), [reactor], CLUSTER)

    assert (found.mismatches, found.passed_over) == ((), 0)
    assert found.same == len(scene.created()) + len(scene.deleted()) + len(scene.reported())
