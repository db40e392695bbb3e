"""What a training job and its pods say of how they are run."""

import pytest

from bus.events.workloads import REPLICA_TYPES, ReplicaCounts, ReplicaSpec, WorkloadCondition
from bus.kube.kinds import governed
from bus.kube.watch.labels import LabelPolicy
from bus.sources import pods, workloads
from bus.sources.training import LAYOUTS
from tests.bus.sources.records import record

META = {"uid": "u", "namespace": "ns", "name": "train", "resourceVersion": "7"}


def training(kind="TFJob", status=None, **spec):
    found = {
        "apiVersion": "kubeflow.org/v1", "kind": kind, "metadata": META, "spec": spec,
        "status": status or {},
    }  # fmt: skip
    event = workloads.translate(record(found), LabelPolicy(), kind=governed("kubeflow.org", kind))
    return workloads.WorkloadObserved.read(event), event


def replicas(container="tensorflow", port="tfjob-port", **fields):
    main = {
        "name": container, "image": "secret.example/image", "command": ["hidden"],
        "env": [{"name": "TOKEN", "value": "hidden"}], "ports": [{"name": port, "containerPort": 3333}],
        "resources": {"requests": {"cpu": "500m", "nvidia.com/gpu": 1}},
    }  # fmt: skip
    side = {"name": "side", "resources": {"limits": {"cpu": "1"}}}
    return {"template": {"spec": {"containers": [main, side]}}, **fields}


def test_a_tfjob_says_how_it_is_run_and_what_its_operator_wrote():
    fact, event = training(
        tfReplicaSpecs={"Worker": replicas(replicas=4, restartPolicy="ExitCode")},
        runPolicy={"backoffLimit": 3, "ttlSecondsAfterFinished": 60, "cleanPodPolicy": "All"},
        status={
            "conditions": [{"type": "Running", "status": "True", "reason": "TFJobRunning", "message": "hidden"}],
            "replicaStatuses": {"Worker": {"active": 2, "selector": "hidden"}},
            "startTime": "2026-10-26T08:00:00Z",
        },
    )  # fmt: skip
    said = fact.training

    assert said.spec.replicas == {
        "Worker": ReplicaSpec(
            4, "ExitCode", port=3333, requests={"cpu": 1500, "nvidia.com/gpu": 1000}
        )
    }
    assert (said.spec.backoff_limit, said.spec.ttl_s, said.spec.clean_pod_policy) == (3, 60, "All")
    assert said.conditions == (WorkloadCondition("Running", "True", "TFJobRunning"),)
    assert said.counts == {"Worker": ReplicaCounts(2)}
    assert b"hidden" not in event.body


def test_an_elastic_pytorchjob_says_its_bounds():
    fact, _ = training(
        "PyTorchJob",
        pytorchReplicaSpecs={"Worker": replicas("pytorch", "pytorchjob-port")},
        elasticPolicy={"minReplicas": 1, "maxReplicas": 3, "rdzvBackend": "c10d"},
        nprocPerNode="2",
    )

    assert (fact.training.spec.elastic.max_replicas, fact.training.spec.processes) == (3, "2")


@pytest.mark.parametrize(
    ("metrics", "wanted"),
    [({}, False), ({"metrics": None}, False), ({"metrics": []}, True), ({"metrics": [{"type": "Resource"}]}, True)],
    ids=str,
)  # fmt: skip
def test_an_elastic_pytorchjob_has_metrics_or_not(metrics, wanted):
    elastic = {"minReplicas": 1} | metrics
    fact, event = training("PyTorchJob", pytorchReplicaSpecs={"Worker": {}}, elasticPolicy=elastic)

    assert fact.training.spec.elastic.has_metrics is wanted
    assert b"Resource" not in event.body


@pytest.mark.parametrize(("kind", "types"), REPLICA_TYPES.items())
@pytest.mark.parametrize("written", [str.lower, str.upper, str.swapcase, str])
def test_replica_types_have_the_names_of_their_kind_in_any_case(kind, types, written):
    specs = LAYOUTS[kind].specs
    fact, _ = training(kind, **{specs: {written(type): {"replicas": 2} for type in types}})

    assert fact.training.spec.replicas == dict.fromkeys(types, ReplicaSpec(2))


@pytest.mark.parametrize(
    "types",
    [("Worker", "worker"), ("WORKER", "worker"), ("chief",), ("helper",), ("K", "k"), ("workers",)],
)
def test_doubled_and_unknown_replica_types_keep_their_names(types):
    fact, _ = training("JAXJob", jaxReplicaSpecs={type: {} for type in types})

    assert set(fact.training.spec.replicas) == set(types)


@pytest.mark.parametrize(
    "spec",
    [
        {"runPolicy": {"backoffLimit": "three"}},
        {"tfReplicaSpecs": {"Worker": {"replicas": -1}}},
        {"tfReplicaSpecs": {str(number): {} for number in range(17)}},
        {"runPolicy": {"schedulingPolicy": {"minResources": {"cpu": "1 core"}}}},
    ],
)
def test_what_cannot_be_read_is_said_with_a_note(spec):
    fact, _ = training(**spec)

    assert fact.training is None
    assert "training_unreadable" in fact.notes


def test_other_kinds_say_nothing_of_it():
    found = {"apiVersion": "batch/v1", "kind": "Job", "metadata": META, "spec": {}}
    event = workloads.translate(record(found), LabelPolicy(), kind=governed("batch", "Job"))

    assert b"training" not in event.body


@pytest.mark.parametrize(("kind", "exits"), [("TFJob", {"tensorflow": 137}), ("ReplicaSet", {})])
def test_a_pod_of_a_training_job_says_exit_codes_and_restarts(kind, exits):
    owner = {"apiVersion": "v1", "kind": kind, "name": "o", "uid": "o", "controller": True}
    ended = {"terminated": {"exitCode": 137}}
    found = {
        "metadata": META | {"ownerReferences": [owner]},
        "status": {
            "phase": "Failed",
            "containerStatuses": [{"name": "tensorflow", "restartCount": 2, "state": ended}],
        },
    }
    fact = pods.PodObserved.read(pods.translate(record(found), LabelPolicy()))

    assert (fact.exits, fact.restarts) == (exits, 2 if exits else 0)
