"""The status of a job has the fields that the training operator (release 1.9) writes, value by value, but for messages."""

import pytest

from reactors.jobs.shape import KINDS
from tests.reactors.jobs.running import FOLDERS, GROUP, Running, job

SCALED = ("PyTorchJob", "PaddleJob", "JAXJob")


def status_of(world, kind):
    return world.api.objects[f"{GROUP}/{FOLDERS[kind]}/train"].get("status", {})


def plain(conditions):
    """Type, status and reason of conditions in their order."""
    return [(one["type"], one["status"], one["reason"]) for one in conditions]


def counts(kind, **found):
    operator = KINDS[kind].operator
    labels = ("job-name=train", f"operator-name={operator}", "replica-type=worker")
    selector = ",".join(f"training.kubeflow.org/{one}" for one in labels)
    return {"Worker": found | ({"selector": selector} if kind in SCALED else {})}


@pytest.mark.parametrize("kind", [one for one in KINDS if one != "XGBoostJob"])
async def test_a_status_has_the_fields_of_the_operators_from_creation_to_success(kind):
    world = Running()
    await world.begin()
    await world.submit(job(kind=kind))
    await world.turns(3)
    running = status_of(world, kind)
    created, runs = running["conditions"]

    assert running.keys() == {"conditions", "replicaStatuses", "startTime"}
    assert running["replicaStatuses"] == counts(kind, active=2)
    assert plain(running["conditions"]) == [
        ("Created", "True", f"{kind}Created"), ("Running", "True", f"{kind}Running"),
    ]  # fmt: skip
    assert created["lastUpdateTime"] == created["lastTransitionTime"] <= running["startTime"]
    assert runs["lastUpdateTime"] == runs["lastTransitionTime"] > created["lastUpdateTime"]

    world.is_over = True
    await world.turns(5)
    ended = status_of(world, kind)
    assert ended.keys() == running.keys() | {"completionTime"}
    assert ended["replicaStatuses"] == counts(kind, succeeded=2)
    assert ended["startTime"] == running["startTime"] < ended["completionTime"]
    # The end turns Running off and changes no more of it; of other conditions it changes nothing.
    assert ended["conditions"][:2] == [created, runs | {"status": "False"}]
    assert plain(ended["conditions"][2:]) == [("Succeeded", "True", f"{kind}Succeeded")]
    assert ended["conditions"][2]["lastTransitionTime"] >= ended["completionTime"]


async def test_a_suspended_job_keeps_its_conditions_and_starts_anew():
    world = Running()
    await world.begin()
    await world.submit(job())
    await world.turns(3)
    before = status_of(world, "TFJob")
    path = f"{GROUP}/tfjobs/train"
    for suspend in (True, False):
        body = world.api.objects[path]
        policy = body["spec"].get("runPolicy", {}) | {"suspend": suspend}
        world.api.put(path, body | {"spec": body["spec"] | {"runPolicy": policy}})
        await world.watch()
        await world.turns(4)
        if suspend:
            stopped = status_of(world, "TFJob")
    resumed = status_of(world, "TFJob")

    assert plain(stopped["conditions"]) == [
        ("Created", "True", "TFJobCreated"), ("Running", "False", "TFJobSuspended"),
        ("Suspended", "True", "TFJobSuspended"),
    ]  # fmt: skip
    assert stopped["conditions"][0] == before["conditions"][0]
    assert stopped["replicaStatuses"] == {"Worker": {}}
    assert stopped["startTime"] == before["startTime"] < resumed["startTime"]
    assert plain(resumed["conditions"]) == [
        ("Created", "True", "TFJobCreated"), ("Suspended", "False", "TFJobResumed"),
        ("Running", "True", "TFJobRunning"),
    ]  # fmt: skip
    assert resumed["replicaStatuses"] == {"Worker": {"active": 2}}
