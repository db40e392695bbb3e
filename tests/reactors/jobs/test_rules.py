"""Bursar's own rules for training jobs, and variables of pods. Source: docs/jobs.md, "Rules of the operator and of Bursar"."""

import pytest

from bus.clock import SECOND_US
from bus.events.workloads import (
    ElasticPolicy,
    ReplicaCounts,
    ReplicaSpec,
    TrainingSpec,
    WorkloadCondition,
)
from reactors.jobs.passes import reconciled
from reactors.jobs.rendezvous import environment
from reactors.jobs.shape import (
    Job,
    JobExpectations,
    JobStatus,
    Rules,
    SeenJob,
    SeenPod,
    SeenService,
    Slot,
)

NOW_US = 1_000 * SECOND_US
OPERATOR, BURSAR = Rules(is_v1=True), Rules(is_v1=False)
RESTARTING = (
    WorkloadCondition("Created", "True"),
    WorkloadCondition("Restarting", "True", "TFJobRestarting"),
)


def job(kind="TFJob", status=None, **spec):
    spec = {"replicas": {"Worker": ReplicaSpec(2)}} | spec
    return Job("j", kind, "ns", "train", TrainingSpec(**spec), status or JobStatus())


def pod(index, phase="Running", type="worker", **fields):
    name = f"train-{type}-{index}"
    return SeenPod(name, name, type, str(index), phase, **fields)


def look(one, *pods, rules=BURSAR, **seen):
    return reconciled(one, SeenJob(tuple(pods), **seen), NOW_US, rules)


def told(found):
    return {(one.type, one.status) for one in found.status.conditions}


def test_no_pod_is_made_beyond_the_replicas():
    one = job(replicas={"Worker": ReplicaSpec(1)})
    pods = pod(0), pod(3)

    assert [slot.index for slot in look(one, *pods, rules=OPERATOR).creates] == [1, 2]
    found = look(one, *pods)
    assert (found.creates, [one.pod.name for one in found.removals]) == ([], ["train-worker-3"])
    assert found.status.counts == {"Worker": ReplicaCounts(1)}


def test_a_job_of_no_pods_makes_none_and_does_not_succeed():
    one = job(replicas={"Worker": ReplicaSpec(0)})

    assert "Succeeded" in {type for type, _ in told(look(one, rules=OPERATOR))}
    assert (look(one).creates, told(look(one))) == ([], set())


def test_a_failed_pod_out_of_range_is_deleted_once():
    one = job(replicas={"Worker": ReplicaSpec(1, "OnFailure")})
    pods = pod(0), pod(1, "Failed")

    assert len(look(one, *pods, rules=OPERATOR).removals) == 2
    assert [one.reason for one in look(one, *pods).removals] == ["out_of_range"]


def test_all_steps_that_are_waited_for_must_be_seen():
    outstanding = {"worker/pods": JobExpectations(1)}

    assert look(job(), rules=OPERATOR, outstanding=outstanding).skipped == ""
    assert look(job(), outstanding=outstanding).skipped == "outstanding"


def test_an_empty_manager_is_none():
    assert look(job(managed_by=""), rules=OPERATOR).skipped == "managed_elsewhere"
    assert look(job(managed_by="")).skipped == ""


def test_a_failure_is_not_hidden_by_the_restart_of_another_pod():
    replicas = {"Worker": ReplicaSpec(1, "ExitCode"), "PS": ReplicaSpec(1, "Never")}
    one = job(replicas=replicas, status=JobStatus(RESTARTING))
    pods = pod(0, "Pending"), pod(0, "Failed", "ps", exit_code=1)

    assert ("Failed", "True") not in told(look(one, *pods, rules=OPERATOR))
    found = look(one, *pods)
    assert (("Failed", "True") in told(found), found.status.completion_us) == (True, NOW_US)


def test_a_permanent_failure_has_a_completion_time():
    one = job(
        replicas={"Worker": ReplicaSpec(1, "ExitCode")}, ttl_s=60, status=JobStatus(RESTARTING)
    )
    pods = (pod(0, "Failed", exit_code=1),)

    assert look(one, *pods, rules=OPERATOR).status.completion_us is None
    assert look(one, *pods).status.completion_us == NOW_US


def test_replaced_pods_count_for_the_backoff_limit():
    one = job(replicas={"Worker": ReplicaSpec(2, "ExitCode")}, backoff_limit=3)
    pods = pod(0), pod(1, "Failed", exit_code=137)

    assert ("Failed", "True") not in told(look(one, *pods, rules=OPERATOR, replaced=3))
    assert ("Failed", "True") not in told(look(one, *pods, replaced=2))
    assert ("Failed", "True") in told(look(one, *pods, replaced=3))


def test_a_chief_that_ended_well_decides_whatever_the_workers_do():
    one = job(replicas={"Chief": ReplicaSpec(1), "Worker": ReplicaSpec(1)})
    pods = pod(0, "Succeeded", "chief"), pod(0, "Failed")

    assert {("Succeeded", "True"), ("Failed", "True")} <= told(look(one, *pods, rules=OPERATOR))
    assert told(look(one, *pods)) == {("Succeeded", "True")}


def test_a_running_pod_that_is_deleted_and_replaced_has_not_failed():
    one = job(replicas={"Worker": ReplicaSpec(2, "OnFailure")})
    pods = pod(0, is_deleting=True), pod(1)

    assert ("Failed", "True") in told(look(one, *pods, rules=OPERATOR))
    assert told(look(one, *pods)) == {("Running", "True")}


def test_an_orphan_pod_is_adopted():
    pods = pod(0, owner="none"), pod(1)

    assert [slot.index for slot in look(job(), *pods, rules=OPERATOR).creates] == [0]
    found = look(job(), *pods)
    assert (found.creates, found.adopted) == ([], ["pod:train-worker-0"])


def test_a_service_that_lost_its_labels_is_released():
    service = SeenService("train-worker-0", "worker", "0", is_selected=False)
    found = look(job(), services=(service,))

    assert found.released == ["service:train-worker-0"]


@pytest.mark.parametrize("rules", [OPERATOR, BURSAR])
def test_a_job_that_wants_too_many_pods_is_let_alone(rules):
    found = look(job(replicas={"Worker": ReplicaSpec(2**31 - 1)}), rules=rules)

    assert (found.skipped, found.creates) == ("too_large", [])


def test_an_index_that_a_user_wrote_makes_no_slots():
    assert len(look(job(), pod("9" * 30), rules=OPERATOR).creates) == 2


def test_a_pytorchjob_succeeds_with_its_master_and_restarts_by_default():
    replicas = {"Master": ReplicaSpec(1), "Worker": ReplicaSpec(1)}
    one = job("PyTorchJob", replicas=replicas)
    ended = look(one, pod(0, "Succeeded", "master"), pod(0), rules=OPERATOR)
    failed = look(one, pod(0, type="master"), pod(0, "Failed"), rules=OPERATOR)

    assert told(ended) == {("Succeeded", "True")}
    assert (told(failed), len(failed.removals)) == ({("Restarting", "True")}, 1)


def test_an_elastic_pytorchjob_succeeds_with_any_worker():
    one = job("PyTorchJob", elastic=ElasticPolicy(1, 2))

    assert ("Succeeded", "True") in told(look(one, pod(0, "Succeeded"), pod(1)))


def test_pods_of_a_pytorchjob_find_their_master():
    replicas = {"Master": ReplicaSpec(1), "Worker": ReplicaSpec(3)}
    one = job("PyTorchJob", replicas=replicas, processes="2")
    master = environment(one, Slot("Master", 0, "m"))
    worker = environment(one, Slot("Worker", 1, "w"))

    assert (master["RANK"], worker["RANK"], worker["WORLD_SIZE"]) == ("0", "2", "8")
    assert (worker["MASTER_ADDR"], worker["MASTER_PORT"]) == ("train-master-0", "23456")
    assert (worker["PET_NNODES"], worker["PET_NPROC_PER_NODE"]) == ("4", "2")


def test_pods_of_an_elastic_pytorchjob_meet_at_worker_0():
    one = job("PyTorchJob", elastic=ElasticPolicy(1, 4, max_restarts=3))
    found = environment(one, Slot("Worker", 0, "w"))

    assert (found["PET_NNODES"], found["PET_RDZV_ENDPOINT"]) == ("1:4", "train-worker-0:23456")
    assert (found["PET_RDZV_BACKEND"], found["PET_MAX_RESTARTS"]) == ("c10d", "3")


def test_the_largest_job_that_is_run_is_looked_at_at_once():
    # The variables of all its pods together would be a gigabyte.
    assert len(look(job(replicas={"Worker": ReplicaSpec(10_000)})).creates) == 10_000
