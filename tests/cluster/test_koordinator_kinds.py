"""Koordinator's kinds as `bursar manifests --koordinator` defines them, on a real API server."""

import json

import pytest

from bus.sources.catalogue import SOURCES
from tests.deploy.manifests import FOLDER

pytestmark = pytest.mark.kube

TEMPLATE = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]}}
SPECS = {
    "Reservation": {"spec": {"template": TEMPLATE, "owners": [{"labelSelector": {"matchLabels": {"app": "a"}}}]}},
    "PodMigrationJob": {
        "spec": {"podRef": {"namespace": "default", "name": "p"}, "mode": "ReservationFirst", "ttl": "5m", "paused": True}
    },
    "Device": {
        "spec": {
            "devices": [
                {
                    "id": "GPU-1", "minor": 0, "type": "gpu", "health": True,
                    "resources": {"koordinator.sh/gpu-memory": "80Gi", "koordinator.sh/gpu-core": 100},
                    "topology": {"nodeID": 0, "pcieID": "0", "socketID": 0, "busID": "0000:0b:00.0"},
                }
            ]
        }
    },
    "ElasticQuota": {"spec": {"min": {"cpu": 4}, "max": {"cpu": "8", "koordinator.sh/gpu": 200}}},
    "PodGroup": {"spec": {"minMember": 2, "scheduleTimeoutSeconds": 30}},
    "ElasticQuotaProfile": {"spec": {"quotaName": "pool", "nodeSelector": {"matchLabels": {"pool": "a"}}}},
    "ClusterColocationProfile": {"spec": {"qosClass": "BE", "selector": {"matchLabels": {"app": "a"}}, "probability": "50%"}},
    "NodeMetric": {"spec": {"metricCollectPolicy": {"reportIntervalSeconds": 60}}},
    "NodeSLO": {"spec": {"resourceUsedThresholdWithBE": {"enable": True}}},
    "NodeResourceTopology": {"topologyPolicies": ["None"], "zones": [{"name": "node-0", "type": "Node", "resources": []}]},
}  # fmt: skip
API = {
    "Reservation": "scheduling.koordinator.sh", "PodMigrationJob": "scheduling.koordinator.sh",
    "Device": "scheduling.koordinator.sh", "ElasticQuota": "scheduling.sigs.k8s.io",
    "PodGroup": "scheduling.sigs.k8s.io", "ElasticQuotaProfile": "quota.koordinator.sh",
    "ClusterColocationProfile": "config.koordinator.sh", "NodeMetric": "slo.koordinator.sh",
    "NodeSLO": "slo.koordinator.sh", "NodeResourceTopology": "topology.node.k8s.io",
}  # fmt: skip


@pytest.fixture(scope="module")
def plane(start_module_plane):
    plane = start_module_plane()
    plane.kubectl("apply", "-f", str(FOLDER / "koordinator" / "crds.yaml"))
    plane.kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")
    return plane


def body(kind, **other):
    metadata = {"name": "one"}
    return (
        {"apiVersion": f"{API[kind]}/v1alpha1", "kind": kind, "metadata": metadata}
        | SPECS[kind]
        | other
    )


def applied(plane, item):
    plane.kubectl("apply", "-f", "-", input=json.dumps(item))
    found = plane.kubectl(
        "get", f"{item['kind']}.v1alpha1.{API[item['kind']]}", "one", "-o", "json"
    )
    return json.loads(found)


@pytest.mark.parametrize("kind", SPECS)
def test_an_object_of_each_kind_is_stored_as_it_was_written(plane, kind):
    found = applied(plane, body(kind))

    defaults = {"ttl": "24h", "allocateOnce": True} if kind == "Reservation" else {}
    for part, written in SPECS[kind].items():
        assert found[part] == (written | defaults if defaults else written)


def test_a_reservation_has_koordinator_s_defaults_and_columns(plane):
    found = applied(plane, body("Reservation"))
    header, row = plane.kubectl("get", "reservations", "one").splitlines()

    assert (found["spec"]["ttl"], found["spec"]["allocateOnce"]) == ("24h", True)
    assert header.split() == ["NAME", "PHASE", "AGE", "NODE", "TTL", "EXPIRES"]
    assert row.split()[0] == "one"
    assert "24h" in row.split()


@pytest.mark.parametrize(
    ("kind", "spec", "field"),
    [
        ("Reservation", {"owners": [{}]}, "spec.template"),
        ("Reservation", {"template": TEMPLATE, "owners": []}, "spec.owners"),
        ("PodMigrationJob", {"mode": "Later", "podRef": {}}, "spec.mode"),
        ("PodMigrationJob", {"paused": True}, "spec.podRef"),
        ("ClusterColocationProfile", {"qosClass": "BEST"}, "spec.qosClass"),
        ("ElasticQuotaProfile", {"quotaName": "pool"}, "spec.nodeSelector"),
    ],
)
def test_what_lacks_a_field_is_refused_with_its_name(plane, kind, spec, field):
    with pytest.raises(RuntimeError, match=field):
        plane.kubectl("apply", "-f", "-", input=json.dumps(body(kind, spec=spec)))


def test_the_objects_are_served_where_the_sources_look(plane):
    paths = [s.path for s in SOURCES if any(f"/{group}/" in s.path for group in API.values())]

    assert len(paths) >= 5
    for path in paths:
        # kubectl asks again while the storage of a new kind starts.
        assert json.loads(plane.kubectl("get", "--raw", path))["kind"].endswith("List"), path
