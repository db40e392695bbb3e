"""What an ordinary tenant tries with TrainJobs against a quota of 10 cores, on a real API server.

What Trainer would make of them, the test makes.

He may write the runtime that his job names, before and after it was admitted.
"""

import json
from pathlib import Path

import pytest

from tests.acceptance.admission_site import LABEL, Site, workload
from tests.acceptance.attacking import LIMIT, Attack
from tests.cluster.api import MERGE

pytestmark = [pytest.mark.kube, pytest.mark.slow, pytest.mark.waits]

CRDS = Path(__file__).parents[1] / "cluster" / "crds" / "queued.yaml"
TRAINER, JOBSET = "trainer.kubeflow.org/v1alpha1", "jobset.x-k8s.io/v1alpha2"
STEP = {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}
RUNTIMES = f"/apis/{TRAINER}/namespaces/default/trainingruntimes"


@pytest.fixture
def attack(start_plane, tmp_path):
    plane = start_plane(controllers=True, scheduler=True, simulator=True)
    plane.kubectl("apply", "--server-side", "-f", str(CRDS))
    plane.kubectl("wait", "--for=condition=Established", "--timeout=60s", "-f", str(CRDS))
    plane.create_nodes(4)
    site = Site(plane, tmp_path)
    site.begin()
    yield Attack(site)
    site.stop()


def replicated(cpu):
    """The one step of a runtime, or of a JobSet: pods of so many cores."""
    container = {"name": "node", "image": "x", "resources": {"limits": {"cpu": str(cpu)}}}
    spec = {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}
    return {"name": "node", "template": {"metadata": {"labels": STEP}, "spec": spec}}


def runtime(name, cpu):
    spec = {
        "mlPolicy": {"numNodes": 1, "torch": {}},
        "template": {"spec": {"replicatedJobs": [replicated(cpu)]}},
    }
    return {
        "apiVersion": TRAINER,
        "kind": "TrainingRuntime",
        "metadata": {"name": name},
        "spec": spec,
    }


def train_job(name, nodes, of="torch", **spec):
    reference = {"apiGroup": "trainer.kubeflow.org", "kind": "TrainingRuntime", "name": of}
    spec = {"runtimeRef": reference, "trainer": {"numNodes": nodes}} | spec
    metadata = {"name": name, "labels": {LABEL: "team"}}
    return {"apiVersion": TRAINER, "kind": "TrainJob", "metadata": metadata, "spec": spec}


def below(item, owner):
    """The item with an owner that controls it."""
    meta = owner["metadata"]
    reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": meta["name"]}
    reference |= {"uid": meta["uid"], "controller": True, "blockOwnerDeletion": True}
    return item | {"metadata": item["metadata"] | {"ownerReferences": [reference]}}


def job_set(job, nodes, cpu):
    """What Trainer makes of a TrainJob."""
    step = replicated(cpu)
    step["template"]["spec"] |= {"parallelism": nodes, "completions": nodes}
    body = {"apiVersion": JOBSET, "kind": "JobSet", "metadata": {"name": job["metadata"]["name"]}}
    return below(body | {"spec": {"replicatedJobs": [step]}}, job)


def unlabelled(name):
    """A Job of three pods of two cores, as the JobSet controller makes it."""
    job = workload("Job", name, 2, 3)
    del job["metadata"]["labels"]
    return job


def test_a_runtime_that_its_tenant_writes_brings_no_pod_beyond_the_quota(attack):
    assert "runtime-unseen" in attack.create(train_job("early", 1))
    attack.create(runtime("torch", 1))
    attack.site.until(lambda: "created" in attack.create(train_job("train", 3)), 60)
    attack.until_used(3000)
    job = attack.get("trainjob", "train")

    def says(cpu):
        patch = {"spec": runtime("torch", cpu)["spec"]}
        attack.api.request("PATCH", f"{RUNTIMES}/torch", patch, content_type=MERGE)

    says(4)
    assert "over-quota" in attack.create(job_set(job, 3, 4))
    # A job that comes now asks for what the runtime says now.
    attack.site.until(lambda: "over-quota" in attack.create(train_job("more", 2)), 60)
    assert "over-quota" in attack.kubectl(
        "patch",
        "trainjob",
        "train",
        "--type=merge",
        "-p",
        json.dumps({"spec": {"trainer": {"numNodes": 9}}}),
    )
    attack.stays(3000)

    says(2)
    assert "created" in attack.create(job_set(job, 3, 2)), "it fits, and is charged as it is"
    attack.until_used(6000)
    made = attack.get("jobset", "train")
    assert "created" in attack.create(below(unlabelled("train-node-0"), made))
    attack.until_running(3, "train-node-0")
    attack.stays(6000)
    beside = attack.create(below(unlabelled("train-node-1"), made))
    assert "over-quota" in beside, "it has more than it is charged for"

    attack.kubectl("delete", "trainjob", "train", "--wait=false")
    attack.until_used(0)
    assert attack.most() <= LIMIT


def test_what_cannot_be_resolved_is_refused(attack):
    attack.create(runtime("torch", 1))
    attack.site.until(lambda: "created" in attack.create(train_job("first", 1)), 60)
    former = train_job("former", 1, podTemplateOverrides=[{"targetJobs": [{"name": "node"}]}])
    assert "demand-unreadable" in attack.create(former)
    assert "runtime-unseen" in attack.create(train_job("lost", 1, of="nowhere"))
    attack.kubectl("delete", "trainingruntime", "torch")
    late = json.dumps(train_job("late", 1))

    def said():
        return attack.kubectl("create", "--dry-run=server", "-f", "-", input=late)

    attack.site.until(lambda: "runtime-unseen" in said(), 60)
    attack.until_used(1000)
    attack.stays(1000)
