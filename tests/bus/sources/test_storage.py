"""Claims, volumes, storage classes and CSINodes as facts: bounded, and nothing that a driver may keep secret."""

import pytest

from bus.sources.catalogue import CLAIMS, CSI_NODES, STORAGE_CLASSES, VOLUMES
from tests.bus.sources.records import POLICY, body, record

METADATA = {"uid": "u", "name": "home", "namespace": "ns", "resourceVersion": "7"}
SAID = {"uid": "u", "name": "home", "resource_version": "7"}
ZONE = "topology.kubernetes.io/zone"
BOUND = "pv.kubernetes.io/bind-completed"


def said(source, **parts):
    metadata = {**METADATA, **parts.pop("metadata", {})}
    found = body(source.translate(record({"metadata": metadata, **parts}), POLICY))
    assert found.items() >= SAID.items()
    return {key: one for key, one in found.items() if key not in SAID and key != "namespace"}


def claimed(spec=None, **parts):
    return said(CLAIMS, spec=spec or {}, **parts)


def annotated(**annotations):
    return {"annotations": {key.replace("__", "/"): one for key, one in annotations.items()}}


@pytest.mark.parametrize(
    ("parts", "want"),
    [
        ({}, {}),
        ({"spec": {"volumeName": "v"}}, {"volume": "v"}),
        ({"spec": {"volumeName": "v"}, "metadata": {"annotations": {BOUND: "yes"}}}, {"volume": "v", "is_bound": True}),
        # A tenant may write this one herself: without a volume it says nothing.
        ({"metadata": {"annotations": {BOUND: "yes"}}}, {}),
        ({"spec": {"storageClassName": "fast"}}, {"storage_class": "fast"}),
        (
            {"spec": {"storageClassName": "fast"}, "metadata": {"annotations": {"volume.beta.kubernetes.io/storage-class": "old"}}},
            {"storage_class": "old"},
        ),
        ({"spec": {"accessModes": ["ReadWriteOnce", "x", "ReadOnlyMany"]}}, {"access_modes": ["ReadOnlyMany", "ReadWriteOnce"]}),
        ({"spec": {"resources": {"requests": {"storage": "1500m"}}}}, {"requested_bytes": 2}),
        ({"spec": {"resources": {"requests": {"storage": "2Ei"}}}}, {}),
        ({"spec": {"resources": {"requests": {"storage": "much"}}}}, {}),
        ({"spec": {"volumeMode": "Block", "selector": {"matchLabels": {"secret": "x"}}}}, {"is_block": True, "has_selector": True}),
        ({"status": {"phase": "Lost"}}, {"is_lost": True}),
        ({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, {"is_terminating": True}),
        ({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "n" * 9999}}}, {"selected_node": "n" * 253}),
        ({"metadata": {"ownerReferences": [{"kind": "Pod", "name": "p", "uid": "owner", "controller": True}]}}, {"owner": "owner"}),
    ],
)  # fmt: skip
def test_a_claim_says(parts, want):
    assert want == said(CLAIMS, **parts)


@pytest.mark.parametrize(
    ("parts", "want"),
    [
        ({}, {}),
        ({"spec": {"capacity": {"storage": "1Gi"}, "storageClassName": "c"}}, {"capacity_bytes": 2**30, "storage_class": "c"}),
        (
            {"spec": {"claimRef": {"namespace": "a", "name": "b", "uid": "c"}}, "status": {"phase": "Bound"}},
            {"claim_namespace": "a", "claim_name": "b", "claim_uid": "c", "phase": "Bound"},
        ),
        ({"spec": {"awsElasticBlockStore": {"volumeID": "x"}}}, {"driver": "kubernetes.io/aws-ebs"}),
        ({"spec": {"hostPath": {"path": "/secret"}}}, {}),
        ({"metadata": {"labels": {ZONE: "z", "mine": "x"}}}, {"zones": {ZONE: "z"}}),
    ],
)  # fmt: skip
def test_a_volume_says(parts, want):
    assert want == said(VOLUMES, **parts)


def test_a_volume_says_its_handle_as_a_digest():
    csi = {"driver": "d", "volumeHandle": "key:secret", "volumeAttributes": {"a": "secret"}}
    found = said(VOLUMES, spec={"csi": csi})

    assert found == {"driver": "d", "handle": found["handle"]}
    assert "secret" not in found["handle"]


@pytest.mark.parametrize(("values", "is_cut"), [(1, False), (1000, True)])
def test_the_node_affinity_of_a_volume_is_bounded(values, is_cut):
    term = {
        "matchExpressions": [
            {"key": "k", "operator": "In", "values": [f"v{n:08}" for n in range(values)]}
        ]
    }
    found = said(VOLUMES, spec={"nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}})

    assert found == ({"is_cut": True} if is_cut else {"node_affinity": {"nodeSelectorTerms": [term]}})  # fmt: skip


def test_a_storage_class_says():
    term = {"matchLabelExpressions": [{"key": "zone", "values": ["a"]}]}
    found = said(
        STORAGE_CLASSES,
        provisioner="p",
        parameters={"secret": "x"},
        volumeBindingMode="WaitForFirstConsumer",
        allowedTopologies=[term],
    )

    assert found == {"provisioner": "p", "waits_for_consumer": True, "allowed_topologies": [term]}
    assert {} == said(STORAGE_CLASSES, volumeBindingMode="Immediate")
    assert {"is_cut": True} == said(STORAGE_CLASSES, allowedTopologies=[term] * 1000)


def test_a_csinode_says_the_limits_of_its_drivers():
    drivers = [
        {"name": "a", "nodeID": "x", "allocatable": {"count": 25}},
        {"name": "b", "nodeID": "x"},
        {"name": "c", "allocatable": {}},
        {"name": "d", "allocatable": {"count": 0}},
    ]

    assert {"limits": {"a": 25, "d": 0}} == said(CSI_NODES, spec={"drivers": drivers})


@pytest.mark.parametrize("source", [CLAIMS, VOLUMES, STORAGE_CLASSES, CSI_NODES])
def test_what_is_deleted_has_vanished(source):
    event = source.translate(record({"metadata": METADATA}, "DELETED"), POLICY)

    assert event.type.endswith(".vanished")
    assert body(event).items() >= SAID.items()
