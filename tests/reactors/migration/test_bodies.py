"""The Reservation that a migration makes, and the status that it writes."""

import json

import pytest

from bus.events.decisions import Target
from bus.events.migrations import MigrationCondition, MovedPod, ReportMigration
from reactors.effectors.making import is_of
from reactors.migration.effectors import bodies

NOW_US = 1_761_465_600_000_000
OWNER = {
    "apiVersion": "apps/v1",
    "kind": "ReplicaSet",
    "name": "web-1",
    "uid": "rs",
    "controller": True,
}
POD = {
    "metadata": {
        "name": "web-0", "namespace": "ns", "uid": "p", "labels": {"app": "web"}, "ownerReferences": [OWNER],
        "annotations": {
            "kubectl.kubernetes.io/last-applied-configuration": "secret-1", "scheduling.koordinator.sh/gpu-partition-spec": "x",
            "scheduling.koordinator.sh/device-allocated": "{}",
        },
    },
    "spec": {
        "nodeName": "n1", "schedulerName": "bursar", "serviceAccountName": "default", "nodeSelector": {"pool": "gpu"},
        "containers": [
            {"name": "c", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "1"}},
             "env": [{"name": "T", "value": "secret-2"}], "args": ["secret-3"], "volumeMounts": [{"name": "s", "mountPath": "/s"}]},
        ],
        "volumes": [{"name": "s", "secret": {"secretName": "secret-4"}}],
    },
}  # fmt: skip
JOB = {
    "metadata": {"name": "move", "uid": "job", "resourceVersion": "7"},
    "spec": {"ttl": "5m", "podRef": {"namespace": "ns", "name": "web-0"}},
}


def made(job=None, pod=POD):
    return bodies.reservation(JOB | (job or {}), pod, NOW_US)


def options(**template):
    return {"spec": JOB["spec"] | {"reservationOptions": {"template": template}}}


def test_the_reservation_is_for_the_pods_of_the_controller_and_used_once():
    found = made()
    spec = found["spec"]

    assert ("job", "5m", True) == (found["metadata"]["name"], spec["ttl"], spec["allocateOnce"])
    assert str(NOW_US // 1000) == found["metadata"]["labels"][bodies.ORDER]
    assert [{"controller": OWNER | {"namespace": "ns"}}] == spec["owners"]
    assert is_of(found, "job") and not is_of(found, "other")


def test_the_template_has_no_node_and_fits_any_other():
    spec = made()["spec"]["template"]["spec"]
    required = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]

    assert ("nodeName" in spec, spec["nodeSelector"], spec["schedulerName"]) == (
        False,
        {"pool": "gpu"},
        "bursar",
    )
    rule = {"key": "metadata.name", "operator": "NotIn", "values": ["n1"]}
    assert {"nodeSelectorTerms": [{"matchFields": [rule]}]} == required


def test_every_term_of_a_pods_affinity_leaves_its_node_out():
    terms = [{"matchExpressions": [{"key": name, "operator": "Exists"}]} for name in ("a", "b")]
    part = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    pod = POD | {"spec": POD["spec"] | {"affinity": {"nodeAffinity": part}}}
    spec = made(pod=pod)["spec"]["template"]["spec"]
    found = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]

    assert [["a", ["n1"]], ["b", ["n1"]]] == [
        [one["matchExpressions"][0]["key"], one["matchFields"][0]["values"]]
        for one in found["nodeSelectorTerms"]
    ]
    assert "matchFields" not in terms[0]


def test_nothing_secret_of_the_pod_is_in_its_reservation():
    text = json.dumps(made())

    assert ("secret" in text, "nvidia.com/gpu" in text, "gpu-partition-spec" in text) == (
        False,
        True,
        True,
    )
    assert "device-allocated" not in text


def test_a_template_of_the_job_is_completed_and_not_replaced():
    owners = [{"labelSelector": {"matchLabels": {"app": "web"}}}]
    found = made(options(metadata={"labels": {"a": "b"}}, spec={"owners": owners, "ttl": "1h"}))

    assert (owners, "1h", "b") == (
        found["spec"]["owners"],
        found["spec"]["ttl"],
        found["metadata"]["labels"]["a"],
    )
    assert "bursar" == found["spec"]["template"]["spec"]["schedulerName"]


@pytest.mark.parametrize("ttl", [None, "0s"])
def test_a_job_without_an_end_leaves_the_time_of_its_reservation_to_the_default(ttl):
    spec = {key: value for key, value in JOB["spec"].items() if key != "ttl"} | (
        {"ttl": ttl} if ttl else {}
    )

    assert "ttl" not in made({"spec": spec})["spec"]


def test_a_pod_that_waits_for_a_node_is_the_owner_itself():
    pod = POD | {"spec": {key: value for key, value in POD["spec"].items() if key != "nodeName"}}
    found = made(pod=pod)["spec"]

    assert [{"object": {"kind": "Pod", "namespace": "ns", "name": "web-0", "uid": "p"}}] == found[
        "owners"
    ]
    assert "affinity" not in found["template"]["spec"]


def test_a_condition_keeps_its_time_until_it_turns():
    then = "2025-01-01T00:00:00Z"
    known = [
        {"type": "ReservationCreated", "status": "True", "lastTransitionTime": then},
        {"type": "Eviction", "status": "False", "lastTransitionTime": then},
    ]
    decision = ReportMigration(
        id="0" * 32, reactor="migration", rules=1, key="job", trigger=1, at_us=1, policy="", is_shadow=False, reason="r",
        target=Target("PodMigrationJob", "", "move", "job"), expires_us=2, phase="Running", status="Eviction",
        cause="EvictComplete", node="n2", new_pod=MovedPod("ns", "web-9", "new"),
        conditions=(MigrationCondition("ReservationCreated", True), MigrationCondition("Eviction", True, "EvictComplete")),
    )  # fmt: skip
    body = bodies.status(JOB | {"status": {"conditions": known}}, decision, NOW_US)

    assert {"uid": "job", "resourceVersion": "7"} == body["metadata"]
    assert [then, "2025-10-26T08:00:00Z"] == [
        one["lastTransitionTime"] for one in body["status"]["conditions"]
    ]
    assert ("n2", {"namespace": "ns", "name": "web-9", "uid": "new"}) == (
        body["status"]["nodeName"],
        body["status"]["podRef"],
    )
