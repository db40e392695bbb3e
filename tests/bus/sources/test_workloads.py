"""Workloads: what of their templates becomes the fact."""

import msgspec
import pytest

from bus.events.pods import NATIVE, PLUGINS, SIGS, VOLCANO
from bus.events.vocabulary import read
from bus.events.workloads import UNREADABLE, WorkloadObserved
from bus.kube.kinds import GOVERNED, QUEUE_ANNOTATION, QUOTA_LABELS
from bus.kube.watch.labels import LabelPolicy
from bus.sources.catalogue import MPI_OPERATOR_JOBS, SOURCES, WORKLOADS
from tests.bus.sources.records import POLICY, body, record, recorded

METADATA = {"uid": "u", "name": "n", "namespace": "ns", "resourceVersion": "7"}
LIMITS = {"limits": {"cpu": "2", "nvidia.com/gpu": "1"}, "requests": {"cpu": "500m"}}
CONTAINER = {
    "name": "c",
    "image": "i",
    "args": ["canary"],
    "env": [{"name": "A", "value": "canary"}],
}
TEMPLATE = {
    "metadata": {
        "labels": {QUOTA_LABELS[0]: "vision", "app": "canary"},
        "annotations": {"a": "canary"},
    },
    "spec": {"containers": [CONTAINER | {"resources": LIMITS}], "nodeSelector": {"x": "canary"}},
}


def deployment(replicas=3, template=TEMPLATE, **metadata):
    return {"metadata": METADATA | metadata, "spec": {"replicas": replicas, "template": template}}


def seen(source, thing, policy=POLICY):
    return WorkloadObserved.read(source.translate(record(thing), policy))


def test_a_workload_says_what_it_asks_for_and_nothing_else_of_its_template():
    event = WORKLOADS["Deployment"].translate(record(deployment()), POLICY)
    one = {"requests.cpu": 500, "requests.nvidia.com/gpu": 1, "limits.cpu": 2000}
    one |= {"limits.nvidia.com/gpu": 1}
    bounded = ("ephemeral-storage", "memory")

    assert {
        "uid": "u", "kind": "Deployment", "namespace": "ns", "name": "n", "resource_version": "7",
        "labels": {QUOTA_LABELS[0]: "vision"}, "pods": 3, "per_replica": one, "replicas": 3,
        "demand": {name: 3 * amount for name, amount in one.items()},
        "unstated": {f"{part}.{name}": ["1 container"] for part in ("limits", "requests") for name in bounded},
    } == body(event)  # fmt: skip
    assert b"canary" not in event.body


def test_a_workload_that_asks_for_nothing_says_so():
    assert {} == seen(WORKLOADS["Deployment"], deployment(0)).demand


def test_an_ended_job_asks_for_nothing():
    ended = {"conditions": [{"type": "Complete", "status": "True", "message": "canary"}]}
    fact = seen(WORKLOADS["Job"], {**deployment(), "status": ended})

    assert ({}, 0, True) == (fact.demand, fact.pods, fact.suspended)


def test_a_job_that_waits_says_what_it_wants_and_of_which_priority():
    template = {**TEMPLATE, "spec": {**TEMPLATE["spec"], "priorityClassName": "high"}}
    job = {**deployment(template=template, annotations={QUEUE_ANNOTATION: "vision"})}
    job["spec"] = {"suspend": True, "template": template}
    fact = seen(WORKLOADS["Job"], job)
    one = {"requests.cpu": 500, "requests.nvidia.com/gpu": 1}
    one |= {"limits.cpu": 2000, "limits.nvidia.com/gpu": 1}

    assert ({}, one, "high", True) == (fact.demand, fact.wanted, fact.priority_class, fact.held)


def test_one_whose_deletion_waits_says_so():
    stamped = {**deployment(), "metadata": METADATA | {"deletionTimestamp": "2026-11-26T00:00:00Z"}}

    assert seen(WORKLOADS["Deployment"], stamped).is_terminating
    assert not seen(WORKLOADS["Deployment"], deployment()).is_terminating


def test_version_2_said_nothing_of_what_waits():
    event = WORKLOADS["Job"].translate(record(deployment()), POLICY)
    old = {"uid": "u", "kind": "Job", "namespace": "ns", "name": "n", "resource_version": "7"}
    old |= {"demand": {}, "suspended": True}
    event = msgspec.structs.replace(event, version=2, body=msgspec.json.encode(old))

    assert WorkloadObserved(**old) == read(event, {"workload.observed": WorkloadObserved})


def test_the_labels_that_name_a_quota_are_kept_whatever_the_policy():
    own = {QUOTA_LABELS[1]: "A4", "app": "web", "x": "y"}
    fact = seen(
        WORKLOADS["Deployment"], deployment(labels=own), LabelPolicy(label_keys=frozenset({"app"}))
    )

    assert {"app": "web", QUOTA_LABELS[0]: "vision", QUOTA_LABELS[1]: "A4"} == fact.labels


@pytest.mark.parametrize("spec", [{}, 7, {"replicas": -1, "template": TEMPLATE}])
def test_a_workload_whose_demand_cannot_be_read_is_there_with_a_note(spec):
    labels = {QUOTA_LABELS[0]: "vision"}
    fact = seen(WORKLOADS["Deployment"], {"metadata": METADATA | {"labels": labels}, "spec": spec})

    assert (None, (UNREADABLE,), labels) == (fact.demand, fact.notes, fact.labels)


def test_a_recorded_job_asks_for_its_pods_until_it_is_complete():
    facts = [
        WorkloadObserved.read(WORKLOADS["Job"].translate(one, POLICY)) for one in recorded("jobs")
    ]
    amounts = {"cpu": 4000, "memory": 16 * 2**30, "nvidia.com/gpu": 1}
    # It states no limits of cpu and memory: they count as its requests.
    demand = {f"{part}.{name}": n for name, n in amounts.items() for part in ("requests", "limits")}

    # SuccessCriteriaMet stands one version before Complete.
    assert [(demand, False)] * 2 + [({}, True)] * 2 == [(f.demand, f.suspended) for f in facts]


def test_version_1_said_nothing_of_the_demand():
    event = WORKLOADS["TFJob"].translate(record(deployment()), POLICY)
    old = {"uid": "u", "kind": "Job", "namespace": "ns", "name": "n", "resource_version": "7"}
    event = msgspec.structs.replace(event, version=1, body=msgspec.json.encode(old))

    assert WorkloadObserved(**old) == read(event, {"workload.observed": WorkloadObserved})


def test_every_governed_kind_but_the_pod_is_followed():
    followed = {source.kind for source in SOURCES if source.kind}

    others = {"BizGroupResourceQuota", "ElasticQuota", "PodDisruptionBudget"}
    others |= {"Namespace", "Node", "PriorityClass", "Scv", "NodeMetric", "NodeMetrics", "Device"}
    others |= {"NodeResourceTopology", "Reservation", "Service", "PodMigrationJob"}
    others |= {"PersistentVolumeClaim", "PersistentVolume", "StorageClass", "CSINode"}
    others |= {"ResourceClaim", "ResourceClaimTemplate", "ResourceSlice", "DeviceClass"}
    others |= {NATIVE, SIGS, PLUGINS, VOLCANO, "TrainingRuntime", "ClusterTrainingRuntime"}
    assert {kind.kind for kind in GOVERNED} - {"Pod"} == followed - others


def test_mpi_jobs_are_followed_as_either_operator_serves_them():
    container = {"name": "c", "resources": {"limits": {"cpu": "2"}}}
    worker = {"replicas": 3, "template": {"spec": {"containers": [container]}}}
    item = {"metadata": METADATA, "spec": {"mpiReplicaSpecs": {"Worker": worker}}}
    found = {one.path: seen(one, item) for one in (WORKLOADS["MPIJob"], MPI_OPERATOR_JOBS)}

    assert list(found) == ["/apis/kubeflow.org/v1/mpijobs", "/apis/kubeflow.org/v2beta1/mpijobs"]
    assert {(one.kind, one.demand["limits.cpu"]) for one in found.values()} == {("MPIJob", 6000)}


def test_only_kinds_that_a_cluster_may_lack_are_optional():
    for source in SOURCES:
        group = source.path.split("/")[2]
        is_custom = "." in group and group not in ("scheduling.k8s.io", "storage.k8s.io")
        # An API server older than 1.21 has no policy/v1, one older than 1.36 no PodGroups.
        is_newer = group == "policy" or source.kind == NATIVE
        assert source.is_optional == (is_custom or is_newer), source.name
