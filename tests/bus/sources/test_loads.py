"""NodeMetric objects: what a node and its pods use."""

from bus.kube.watch.records import LARGEST_BODY
from bus.sources.catalogue import NODE_METRICS
from bus.sources.loads import MOST_DURATIONS
from tests.bus.sources.records import POLICY, body, record

METADATA = {"uid": "u", "name": "n1", "resourceVersion": "7"}
SAID = {"uid": "u", "name": "n1", "resource_version": "7"}


def said(status, spec=None):
    found = {"metadata": METADATA, "spec": spec or {}, "status": status}
    return body(NODE_METRICS.translate(record(found), POLICY))


def use(cpu, **more):
    return {"resources": {"cpu": cpu, "memory": "1Gi", "nvidia.com/gpu": "1"}} | more


def test_a_node_metric_says_what_is_used():
    status = {
        "updateTime": "2026-11-01T00:00:00Z",
        "nodeMetric": {
            "nodeUsage": use("31", devices=[{}]),
            "aggregatedNodeUsages": [{"duration": "5m0s", "usage": {"p95": use("40"), "p42": use("1")}}],
        },
        "podsMetric": [{"namespace": "ns", "name": "p", "podUsage": use("2", qos="LS")}],
        "prodReclaimableMetric": {},
    }  # fmt: skip
    spec = {"metricCollectPolicy": {"reportIntervalSeconds": 30}}

    assert said(status, spec) == SAID | {
        "updated": "2026-11-01T00:00:00Z", "interval_seconds": 30,
        "used": {"cpu": "31", "memory": "1Gi"},
        "pods": [{"namespace": "ns", "name": "p", "cpu": "2", "memory": "1Gi"}],
        "aggregated": [{"duration": "5m0s", "used": {"p95": {"cpu": "40", "memory": "1Gi"}}}],
    }  # fmt: skip
    assert said({}) == SAID


def test_what_is_said_of_a_node_is_bounded():
    pods = [{"namespace": "n" * 999, "name": "p" * 999, "podUsage": use("1" * 99)}] * 5_000
    status = {
        "podsMetric": pods,
        "nodeMetric": {"aggregatedNodeUsages": [{"duration": "9" * 99, "usage": {}}] * 99},
    }
    event = NODE_METRICS.translate(record({"metadata": METADATA, "status": status}), POLICY)
    found = body(event)

    assert len(event.body) < LARGEST_BODY
    assert len(found["pods"]) > 50 and len(found["aggregated"]) == MOST_DURATIONS
    assert "cpu" not in found["pods"][0]
    assert found["aggregated"][0] == {"duration": "", "used": {}}


def test_a_deleted_node_metric_has_vanished():
    event = NODE_METRICS.translate(record({"metadata": METADATA}, "DELETED"), POLICY)

    assert ("nodemetric.vanished", SAID) == (event.type, body(event))
