"""What the operator would have said as Kubernetes Events is on the decision that writes the status, worded as it words them; of
each condition that changes one is written beside the job.
"""

import msgspec
import pytest

from bus.errors import (
    ClusterUnavailableError,
    NotFoundError,
    PermissionDeniedError,
    RequestRefusedError,
)
from bus.events.decisions import DeleteJob, ReportJob, Target
from bus.events.workloads import WorkloadCondition
from reactors.engine.verify import rederive
from reactors.jobs.effectors.notices import records
from reactors.jobs.effectors.run import JobEffector
from reactors.jobs.reactor import reactor
from tests.factories import CLUSTER
from tests.reactors.jobs.running import GROUP, Running, job
from tests.reactors.jobs.scene import EXIT, begun

#: A status as version 4 of the rules recorded it, which knew no events.
OLDER = (
    b'{"id":"0123456789abcdef0123456789abcdef","reactor":"jobs","rules":4,"key":"j","trigger":7,"at_us":1,"policy":"p",'
    b'"is_shadow":false,"target":{"kind":"TFJob","namespace":"ns","name":"train","uid":"j"},"reason":"running",'
    b'"numbers":{"active":2,"failed":0,"succeeded":0},"expires_us":300000001,'
    b'"conditions":[{"type":"Running","status":"True","reason":"TFJobRunning"}],"start_us":1}'
)


async def lived(ends=None, body=None, turns=8):
    world = Running(ends)
    await world.begin()
    await world.submit(body or job())
    await world.turns(2)
    world.is_over = True
    await world.turns(turns)
    return world


def told(world):
    return [(one.reason, one.events) for one in world.decisions(ReportJob) if one.events]


async def test_a_job_that_ends_well_says_so_and_that_its_containers_ended():
    world = await lived()

    assert told(world)[-1] == ("succeeded", ("Normal ExitedWithCode", "Normal TFJobSucceeded"))


async def test_a_pod_that_is_replaced_is_a_warning():
    world = await lived({"worker-1-1": 137})

    assert ("restarting", ("Normal ExitedWithCode", "Warning TFJobRestarting")) in told(world)


async def test_a_job_that_fails_says_so_in_the_kind_s_own_words():
    world = await lived({"worker-1-1": 1}, job(kind="PyTorchJob"))
    (reason, events) = told(world)[-1]

    assert (reason, events[-1]) == ("failed", "Normal PyTorchJobFailed")
    assert "Warning PyTorchJobFailed" in events


async def test_each_event_is_there_once_however_many_pods_it_is_about():
    world = await lived(body=job(replicas={"Worker": (8, "")}))

    assert told(world)[-1] == ("succeeded", ("Normal ExitedWithCode", "Normal TFJobSucceeded"))


async def test_a_job_is_suspended_and_resumed():
    scene = await begun()
    await scene.see_job(spec={"suspend": True})
    await scene.see_job("Created", "Suspended", spec={"suspend": False})
    told = [one.events for one in scene.decisions(ReportJob)]

    assert ("Normal TFJobSuspended",) in told
    assert "Normal TFJobResumed" in told[-1]


async def test_the_end_of_a_job_by_its_time_is_an_event_of_the_deletion():
    world = await lived(body=job(ttlSecondsAfterFinished=20))
    (deletion,) = world.decisions(DeleteJob)

    assert deletion.events == ("Normal SuccessfulDeleteJob",)


async def test_where_the_operator_says_nothing_nothing_is_recorded():
    scene = await begun()
    running = [one for one in scene.decisions(ReportJob) if one.reason == "running"]

    assert running and all(b"events" not in msgspec.json.encode(one) for one in running)


def test_a_status_that_was_recorded_before_is_read_and_written_as_it_was():
    found = msgspec.json.decode(OLDER, type=ReportJob)

    assert (found.events, found.conditions) == (
        (),
        (WorkloadCondition("Running", "True", "TFJobRunning"),),
    )
    assert msgspec.json.encode(found) == OLDER


async def test_decisions_with_events_are_derived_again_byte_for_byte():
    scene = await begun(**EXIT)
    await scene.see_pod(1, "Failed", exits={"tensorflow": 137})
    await scene.tick()
    found = rederive(lambda: iter(scene.transport.events), [reactor], CLUSTER)

    assert (found.mismatches, found.passed_over) == ((), 0)
    assert any(one.events for one in scene.decisions(ReportJob))


async def written(ends=None, body=None):
    world = await lived(ends, body)
    return [
        (one["type"], one["reason"], one["note"]) for one in world.api.of("events").values()
    ], world


async def test_each_change_of_a_condition_is_written_once_as_an_event_beside_the_job():
    told, world = await written({"worker-1-1": 137})

    assert told == [
        ("Warning", "TFJobRestarting", "TFJob ns/train is restarting: pods 1 active, 0 succeeded, 1 failed"),
        ("Normal", "TFJobSucceeded", "TFJob ns/train successfully completed"),
    ]  # fmt: skip
    (first, _) = world.api.of("events").values()
    there = world.api.objects[f"{GROUP}/tfjobs/train"]["metadata"]
    assert first["regarding"] == {
        "apiVersion": "kubeflow.org/v1", "kind": "TFJob", "namespace": "ns", "name": "train", "uid": there["uid"],
    }  # fmt: skip


async def test_a_failure_of_which_the_operator_says_twice_is_one_event():
    told, _ = await written({"worker-1-1": 1})

    assert [one[:2] for one in told] == [("Warning", "TFJobFailed")]


@pytest.mark.parametrize("suspend", [True, False])
async def test_a_job_that_waits_says_so(suspend):
    world = await lived(body=job(suspend=suspend), turns=2)
    told = {one["reason"]: one["note"] for one in world.api.of("events").values()}

    assert told.get("TFJobSuspended") == ("TFJob ns/train is suspended" if suspend else None)


@pytest.mark.parametrize(
    "error",
    [
        PermissionDeniedError(reason="Forbidden", message="events is forbidden"),
        RequestRefusedError(reason="Invalid", message="eventTime"), NotFoundError(message="ns"),
        ClusterUnavailableError(url="u", problem="away"),
    ],
    ids=lambda error: type(error).__name__,
)  # fmt: skip
async def test_an_event_that_is_not_taken_holds_nothing_up_and_is_logged_once(error, caplog):
    world = Running({"worker-1-1": 137})
    world.api.create = refusing(world.api.create, error)
    await world.begin()
    await world.submit(job())
    await world.turns(2)
    world.is_over = True
    await world.turns(8)

    assert world.conditions() == ["Created", "Succeeded"]
    assert {result for result, _ in world.outcomes()} <= {"done", "stale"}
    assert world.api.of("events") == {}
    assert sum("not told as an Event" in one.message for one in caplog.records) == 1


def refusing(create, error):
    async def refused(path, body):
        if path.endswith("/events"):
            raise error
        return await create(path, body)

    return refused


async def test_who_tries_again_after_the_status_was_written_writes_no_second_event():
    world = await lived()
    decision = world.decisions(ReportJob)[-1]
    before = len(world.api.of("events"))

    assert (await JobEffector(world.api).act(decision))[0] == "done"
    assert len(world.api.of("events")) == before


def test_the_name_of_an_event_follows_from_its_decision_and_its_note_is_bounded():
    ended = (WorkloadCondition("Succeeded", "True", "TFJobSucceeded"),)
    found = msgspec.structs.replace(
        msgspec.json.decode(OLDER, type=ReportJob), target=Target("TFJob", "n" * 2_000, "train", "j"),
        conditions=ended,
    )  # fmt: skip
    (one,), (again,) = (list(records(found, (), "kubeflow.org/v1")) for _ in range(2))

    assert one == again
    assert len(one["note"]) == 1024
    assert list(records(found, ended, "kubeflow.org/v1")) == []


def test_of_conditions_of_which_the_operator_says_nothing_there_is_no_event():
    found = msgspec.json.decode(OLDER, type=ReportJob)

    assert list(records(found, (), "kubeflow.org/v1")) == []
