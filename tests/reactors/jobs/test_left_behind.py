"""A job that failed by its limits loses every pod, also one whose deletion was refused when it failed."""

import pytest

from bus.clock import SECOND_US
from bus.errors import PermissionDeniedError
from bus.events.decisions import DeleteReplica
from bus.events.workloads import ReplicaSpec, TrainingSpec, WorkloadCondition
from reactors.engine.verify import rederive
from reactors.jobs.passes import reconciled
from reactors.jobs.reactor import reactor
from reactors.jobs.shape import Job, JobStatus, Rules, SeenJob, SeenPod
from tests.factories import CLUSTER
from tests.reactors.jobs.running import CORE, Running, job

OWN, V1 = Rules(is_v1=False), Rules(is_v1=True)


def removed(rules=OWN, start=0, end=60, ended="Failed", replaced=0, **spec):
    """Why the pod that still runs is deleted, if it is."""
    replicas = {"Worker": ReplicaSpec(1, "ExitCode")}
    status = JobStatus(
        (WorkloadCondition(ended, "True", ended),), {}, start * SECOND_US, end * SECOND_US
    )
    given = Job("j", "TFJob", "ns", "train", TrainingSpec(replicas, **spec), status)
    seen = SeenJob((SeenPod("train-worker-0", "p", "worker", "0", "Running"),), replaced=replaced)
    found = reconciled(given, seen, 100 * SECOND_US, rules)
    return [one.reason for one in found.removals]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"deadline_s": 60}, ["limit_reached"]),
        ({"deadline_s": 61}, []),
        ({"deadline_s": 60, "rules": V1}, []),
        ({"deadline_s": 60, "ended": "Succeeded"}, []),
        ({"backoff_limit": 2, "replaced": 2}, ["limit_reached"]),
        ({"backoff_limit": 2, "replaced": 1}, []),
        ({"deadline_s": 61, "clean_pod_policy": "All"}, ["finished"]),
        ({}, []),
    ],
    ids=["late", "in time", "the operator's", "succeeded", "too often", "not too often", "policy", "no limit"],
)  # fmt: skip
def test_what_a_limit_ended_is_deleted_until_it_is_gone(given, expected):
    assert removed(**given) == expected


def with_restarts(world, count):
    """Each pod runs with so many restarts of its container."""
    for name, one in world.api.of("pods").items():
        container = {"name": "tensorflow", "restartCount": count, "state": {"running": {}}}
        status = one["status"] | {"containerStatuses": [container]}
        world.api.put(f"{CORE}/pods/{name}", one | {"status": status})


async def test_the_last_pods_of_a_job_that_restarted_too_often_go_too():
    """The deletion of one pod is refused while the other goes: what is left restarted fewer times than the limit is."""
    world = Running()
    await world.begin()
    await world.submit(job(replicas={"Worker": (2, "OnFailure")}, backoffLimit=3))
    await world.turns(3)
    delete = world.api.delete

    async def refused(path, *, uid):
        if path.endswith("/pods/train-worker-0-1"):
            raise PermissionDeniedError(message="not now")
        return await delete(path, uid=uid)

    world.api.delete = refused
    world.clock.after(1)
    with_restarts(world, 2)
    await world.watch()
    await world.turns(3)
    assert world.conditions()[-1] == "Failed"
    assert list(world.api.of("pods")) == ["train-worker-0-1"]

    world.api.delete = delete
    world.runner = world.new_runner(world.reactor)
    await world.read()
    await world.turns(8)
    assert not world.api.of("pods")
    assert {one.reason for one in world.decisions(DeleteReplica)} == {"limit_reached"}
    assert not rederive(lambda: iter(world.transport.events), [reactor], CLUSTER).mismatches


async def test_of_a_job_that_failed_otherwise_the_pods_stay_as_its_policy_says():
    world = Running({"worker-0-1": 1})
    await world.begin()
    await world.submit(job(backoffLimit=3))
    await world.turns(6)

    assert world.conditions()[-1] == "Failed"
    assert len(world.api.of("pods")) == 2
