"""Pods and services that carry a job's labels and that nobody controls: a job that Bursar runs takes them, and lets go what lost
its labels."""

import pytest

from bus.errors import PermissionDeniedError
from bus.events.decisions import AdoptReplica, DeleteReplica, ReleaseReplica
from reactors.jobs.shape import INDEX, JOB, OPERATOR, TYPE
from tests.reactors.jobs.running import CORE, FOLDERS, GROUP, Running, job, killed
from tests.scenario import Scenario

REQUESTS = {"resources": {"requests": {"cpu": "1"}}}


def pod(name="old", index=0, of="train", phase="Running", owners=(), namespace="ns", by="tfjob"):
    """A pod with the labels of worker ``index``."""
    labels = {OPERATOR: f"{by}-controller", JOB: of, TYPE: "worker", INDEX: str(index)}
    container = {"name": "tensorflow", "image": "x", **REQUESTS}
    return {
        "metadata": {
            "name": name, "namespace": namespace, "labels": labels, "ownerReferences": [*owners],
        },
        "spec": {"containers": [container], "nodeName": "n"},
        "status": {"phase": phase, "startTime": "2026-01-01T00:00:00Z"},
    }  # fmt: skip


def service(index=0, owners=()):
    """A service with the labels of worker ``index``."""
    body = pod(f"train-worker-{index}", index, owners=owners)
    return body | {"spec": {"clusterIP": "None"}, "status": {}}


async def world(*objects, **policy):
    """Bursar runs jobs where these pods and services are."""
    found = Running()
    await found.begin(**policy)
    for body in objects:
        part = "pods" if body["spec"].get("containers") else "services"
        found.api.put(f"{CORE}/{part}/{body['metadata']['name']}", body)
    await found.watch()
    return found


def owners(found, name, part="pods"):
    """Uids of the owners of an object."""
    metadata = found.api.of(part)[name]["metadata"]
    return [one["uid"] for one in metadata.get("ownerReferences", ()) if one.get("controller")]


def uid(found, name="train", kind="TFJob"):
    return found.api.objects[f"{GROUP}/{FOLDERS[kind]}/{name}"]["metadata"]["uid"]


async def test_a_job_takes_a_pod_and_a_service_that_nobody_controls_and_makes_the_rest():
    found = await world(pod(), service())
    await found.submit(job())
    await found.turns(6)

    assert owners(found, "old") == owners(found, "train-worker-0", "services") == [uid(found)]
    assert sorted(found.api.of("pods")) == ["old", "train-worker-1-1"]
    assert sorted(found.api.of("services")) == ["train-worker-0", "train-worker-1"]
    assert (found.api.writes["owners"], found.conditions()) == (2, ["Created", "Running"])
    assert {one.reason for one in found.decisions(AdoptReplica)} == {"labels_match"}


async def test_the_job_goes_on_with_what_it_took_as_with_its_own():
    found = await world(pod("train-worker-0-3"))
    found.ends = {"worker-0-3": 137}
    await found.submit(job())
    await found.turns(12)

    assert [one.target.name for one in found.decisions(DeleteReplica)] == ["train-worker-0-3"]
    assert sorted(found.api.of("pods")) == ["train-worker-0-4", "train-worker-1-1"]


@pytest.mark.parametrize(
    "body",
    [
        pod(of="other"),
        pod(index=7),
        pod(index="x"),
        pod(phase="Succeeded"),
        pod(phase="Failed"),
        pod(by="pytorchjob"),
        pod(owners=[{"kind": "ReplicaSet", "name": "r", "uid": "r", "controller": True}]),
        pod() | {"metadata": pod()["metadata"] | {"deletionTimestamp": "2026-01-01T00:00:00Z"}},
    ],
    ids=["of another job", "beyond its replicas", "of no place", "succeeded", "failed", "of another kind", "controlled", "deleted"],
)  # fmt: skip
async def test_nothing_else_is_taken_and_nothing_that_nobody_made_for_a_job_is_deleted(body):
    found = await world(body)
    before = found.api.of("pods")["old"]
    await found.submit(job())
    await found.turns(6)

    assert found.decisions(AdoptReplica) == [] and found.decisions(DeleteReplica) == []
    assert {"old", "train-worker-0-1", "train-worker-1-1"} == set(found.api.of("pods"))
    assert owners(found, "old") == [one["uid"] for one in before["metadata"]["ownerReferences"]]


async def test_of_several_pods_for_one_place_the_oldest_is_taken_and_the_others_stay():
    found = await world(pod("b"), pod("a"))
    await found.submit(job())
    await found.turns(6)

    taken = [name for name in ("a", "b") if owners(found, name)]
    assert len(taken) == 1 and len(found.decisions(AdoptReplica)) == 1
    assert set(found.api.of("pods")) == {"a", "b", "train-worker-1-1"}
    assert found.decisions(DeleteReplica) == []


async def test_a_pod_with_the_name_of_an_attempt_that_cannot_be_taken_blocks_no_place():
    found = await world(pod("train-worker-0-1", phase="Failed"))
    await found.submit(job())
    await found.turns(6)

    assert owners(found, "train-worker-0-1") == []
    assert owners(found, "train-worker-0-2") == [uid(found)]


async def test_the_name_of_a_pod_that_is_nobodys_is_passed_over():
    body = pod("train-worker-0-1")
    body["metadata"]["labels"] = {}
    found = await world(body)
    await found.submit(job())
    await found.turns(5)

    assert set(found.api.of("pods")) == {"train-worker-0-1", "train-worker-0-2", "train-worker-1-1"}
    assert (owners(found, "train-worker-0-1"), found.conditions()) == ([], ["Created", "Running"])


async def test_two_jobs_of_one_name_take_nothing():
    found = await world()
    await found.submit(job())
    await found.submit(job(kind="PyTorchJob"))
    await found.turns(4)
    found.api.drop(f"{CORE}/pods/train-worker-0-1")
    found.api.put(f"{CORE}/pods/old", pod())
    await found.watch()
    await found.turns(4)

    assert (found.decisions(AdoptReplica), owners(found, "old")) == ([], [])


@pytest.mark.parametrize("policy", [{"suspend": True}, {"marked": False}], ids=["suspended", "of an operator"])  # fmt: skip
async def test_a_job_that_is_suspended_or_run_by_others_takes_nothing(policy):
    found = await world(pod())
    await found.submit(job(**policy))
    await found.turns(4)

    assert (found.decisions(AdoptReplica), owners(found, "old")) == ([], [])


async def test_a_job_that_was_made_again_after_the_decision_does_not_get_the_pods():
    found = await world(pod())
    await found.submit(job())
    path = f"{GROUP}/tfjobs/train"
    old = uid(found)
    found.api.drop(path)
    found.api.put(path, job())
    await found.work()

    assert owners(found, "old") != [old]
    await found.watch()
    await found.turns(5)
    assert owners(found, "old") == [uid(found)] != [old]


async def test_a_pod_that_somebody_else_takes_first_stays_theirs():
    found = await world(pod())
    await found.submit(job())
    other = {"kind": "ReplicaSet", "name": "r", "uid": "r", "controller": True}
    found.api.put(f"{CORE}/pods/old", pod(owners=[other]))
    await found.turns(6)

    assert owners(found, "old") == ["r"]
    assert {"train-worker-0-1", "train-worker-1-1"} <= set(found.api.of("pods"))


async def test_what_may_not_be_taken_is_replaced_and_tried_again_when_its_place_is_free():
    found = await world(pod())
    merge = found.api.merge

    async def refuses(path, body):
        if path.endswith("/pods/old"):
            raise PermissionDeniedError(verb="patch", message="no right to")
        await merge(path, body)

    found.api.merge = refuses
    await found.submit(job())
    await found.turns(6)

    assert (owners(found, "old"), found.conditions()) == ([], ["Created", "Running"])
    assert set(found.api.of("pods")) == {"old", "train-worker-0-1", "train-worker-1-1"}


@pytest.mark.parametrize("lost", [{JOB: "debugged"}, {OPERATOR: "mine"}], ids=["job", "operator"])
async def test_a_pod_that_lost_the_labels_of_its_job_is_let_go_and_its_place_is_filled(lost):
    found = await world()
    await found.submit(job())
    await found.turns(4)
    path = f"{CORE}/pods/train-worker-0-1"
    body = found.api.objects[path]
    labels = body["metadata"]["labels"] | lost
    found.api.put(path, body | {"metadata": body["metadata"] | {"labels": labels}})
    await found.watch()
    await found.turns(5)

    assert owners(found, "train-worker-0-1") == []
    assert [one.reason for one in found.decisions(ReleaseReplica)] == ["labels_lost"]
    assert owners(found, "train-worker-0-2") == [uid(found)]


@pytest.mark.parametrize("label", ["job.before_claim", "job.after_claim"])
@pytest.mark.parametrize("times", [1, 2])
async def test_whoever_dies_while_a_job_takes_what_is_there_nothing_is_made_twice(label, times):
    found = await world(pod(), service(), pod("other", 1))
    await found.submit(job())

    assert await killed(found, label, times, 12)
    assert set(found.api.of("pods")) == {"old", "other"}
    assert owners(found, "old") == owners(found, "other") == [uid(found)]
    assert found.api.writes["owners"] == 3 and not found.decisions(DeleteReplica)


async def test_a_successor_from_a_snapshot_knows_who_waits_to_be_taken():
    found = await world(pod(of="later"))
    replica = found.runner.replica
    saved = replica.saved()
    again = found.new_runner(found.reactor).replica
    again.restore(saved)

    assert again.states["jobs"].orphans._of == replica.states["jobs"].orphans._of != {}
    assert isinstance(found, Scenario)
