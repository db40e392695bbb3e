"""Nodes, namespaces and workloads: what of a record becomes the fact."""

import msgspec
import pytest

from bus.errors import ObservationError
from bus.events.namespaces import NamespaceObserved
from bus.events.nodes import NodeObserved
from bus.events.pods import Owner
from bus.events.workloads import WorkloadObserved
from bus.kube.watch.labels import LabelPolicy
from bus.sources import namespaces, nodes
from bus.sources.catalogue import SOURCES, WORKLOADS
from tests.bus.sources.records import POLICY, body, record, recorded

METADATA = {"uid": "u1", "name": "n", "resourceVersion": "7"}


def thing(spec=None, status=None, **metadata):
    return {"metadata": METADATA | metadata, "spec": spec or {}, "status": status or {}}


def test_a_recorded_node_says_what_it_offers():
    event = nodes.translate(recorded("nodes")[0], POLICY)
    node = NodeObserved.read(event)

    assert (event.type, event.key, node.model) == (
        "node.observed",
        "node-0",
        "NVIDIA-A100-SXM4-80GB",
    )
    assert node.allocatable["nvidia.com/gpu"] == "8"


@pytest.mark.parametrize(
    ("labels", "model"),
    [
        ({}, None),
        ({"kubernetes.io/gpu-model": "T4", "nvidia.com/gpu.product": "A10"}, "A10"),
        ({"nvidia.com/gpu.product": "", "cloud.google.com/gke-accelerator": "l4"}, "l4"),
        ({"gpu": "A10"}, None),
    ],
    ids=["no label", "the first of the list", "an empty one is none", "an unknown one is none"],
)
def test_the_model_is_the_first_known_label(labels, model):
    assert NodeObserved.read(nodes.translate(record(thing(labels=labels)), POLICY)).model == model


def test_a_node_that_is_ready_and_cordoned_says_both():
    conditions = [{"type": "DiskPressure", "status": "True"}, {"type": "Ready", "status": "True"}]
    node = thing(
        {"unschedulable": True}, {"conditions": conditions, "allocatable": {"b": "1", "a": "2"}}
    )
    actual = body(nodes.translate(record(node), POLICY))

    assert actual == {
        "uid": "u1",
        "name": "n",
        "resource_version": "7",
        "ready": True,
        "unschedulable": True,
        "allocatable": {"a": "2", "b": "1"},
    }


def test_allocatable_is_bounded():
    many = {f"example.com/{n:04}": "1" for n in range(1000)} | {"cpu": "9" * 33, "m" * 400: "1"}
    node = NodeObserved.read(nodes.translate(record(thing(status={"allocatable": many})), POLICY))

    assert len(node.allocatable) == 128
    assert "cpu" not in node.allocatable


def test_a_recorded_namespace_names_team_and_owner():
    event = namespaces.translate(recorded("namespaces")[0], POLICY)
    namespace = NamespaceObserved.read(event)

    assert (event.type, event.key) == ("namespace.observed", "vision")
    assert (namespace.team, namespace.user) == ("vision", "ann@example.com")


@pytest.mark.parametrize(
    ("metadata", "want"),
    [
        ({}, (None, None)),
        ({"labels": {"bursar.io/user": "eve"}, "annotations": {"owner": "ann"}}, (None, "eve")),
        ({"labels": {"bursar.io/team": "t" * 100}}, ("t" * 63, None)),
        ({"annotations": {"owner": "a\nb"}}, (None, "ab")),
    ],
    ids=["nobody", "the label before the annotation", "cut to a label's length", "no line ends"],
)
def test_whose_a_namespace_is(metadata, want):
    found = NamespaceObserved.read(namespaces.translate(record(thing(**metadata)), POLICY))

    assert want == (found.team, found.user)


def test_the_annotation_that_names_the_owner_is_configurable():
    policy = LabelPolicy(owner_annotation="example.com/contact")
    found = namespaces.translate(record(thing(annotations={"example.com/contact": "bo"})), policy)

    assert NamespaceObserved.read(found).user == "bo"


def test_recorded_workloads_form_the_chain_of_owners():
    replicas = WorkloadObserved.read(
        WORKLOADS["ReplicaSet"].translate(recorded("replicasets")[0], POLICY)
    )
    deployment = WorkloadObserved.read(
        WORKLOADS["Deployment"].translate(recorded("deployments")[0], POLICY)
    )
    job = WorkloadObserved.read(WORKLOADS["Job"].translate(recorded("jobs")[0], POLICY))

    assert replicas.owner == Owner("Deployment", "web", deployment.uid)
    assert (deployment.kind, deployment.labels, deployment.owner) == (
        "Deployment",
        {"app": "web"},
        None,
    )
    assert (job.kind, job.namespace, job.name) == ("Job", "vision", "train")


def test_recorded_templates_leave_in_no_event():
    for source, kind in (
        (WORKLOADS["Deployment"], "deployments"),
        (WORKLOADS["ReplicaSet"], "replicasets"),
        (WORKLOADS["Job"], "jobs"),
    ):
        for seen in recorded(kind):
            assert b"canary-recorded" in seen.object
            assert b"canary-recorded" not in msgspec.json.encode(source.translate(seen, POLICY))


#: What is polled has no identity of its own: its module's tests say which it is given.
WATCHED = [source for source in SOURCES if source.polling is None]


@pytest.mark.parametrize("source", WATCHED, ids=lambda source: source.name)
def test_a_delete_says_what_vanished_in_which_version(source):
    event = source.translate(record(thing(namespace="team-a"), "DELETED"), POLICY)
    kept = {"uid": "u1", "name": "n", "resource_version": "7"}

    assert event.type.endswith(".vanished")
    assert event.id == f"{event.type}/u1/7"
    assert kept.items() <= body(event).items()


@pytest.mark.parametrize("source", WATCHED, ids=lambda source: source.name)
def test_an_object_without_identity_is_parked(source):
    with pytest.raises(ObservationError):
        source.translate(record(thing(namespace="team-a", uid="")), POLICY)


def test_a_workload_without_namespace_is_parked():
    with pytest.raises(ObservationError, match="namespace"):
        WORKLOADS["CronJob"].translate(record(thing()), POLICY)


def test_every_source_has_a_name_and_a_path_of_its_own():
    names, paths = ({getattr(s, field) for s in SOURCES} for field in ("name", "path"))

    assert len(names) == len(paths) == len(SOURCES)
