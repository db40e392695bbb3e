"""PodMigrationJobs as facts: the pod, the reservation and the status, and nothing of a template."""

import msgspec
import pytest

from bus.errors import ObservationError
from bus.sources.catalogue import MIGRATIONS, PODS
from tests.bus.sources.records import POLICY, body, record

METADATA = {
    "uid": "u",
    "name": "move",
    "resourceVersion": "7",
    "creationTimestamp": "2026-10-26T08:00:00Z",
}
SAID = {"uid": "u", "name": "move", "resource_version": "7", "created": "2026-10-26T08:00:00Z"}
POD = {"namespace": "ns", "name": "p", "uid": "pu"}


def said(spec=None, status=None, **metadata):
    found = {"metadata": METADATA | metadata, "spec": spec, "status": status}
    return body(MIGRATIONS.translate(record(found), POLICY))


def test_a_job_names_its_pod_its_reservation_and_its_status():
    conditions = [
        {"type": "Eviction", "status": "True", "reason": "EvictComplete", "lastTransitionTime": "x"}
    ]
    found = said(
        {"ttl": "5m", "mode": "EvictDirectly", "paused": True, "podRef": POD,
         "reservationOptions": {"reservationRef": {"name": "r"}, "template": {"spec": {"secret": "s"}}}},
        {"phase": "Running", "status": "Eviction", "reason": "EvictComplete", "message": "m", "nodeName": "n2",
         "podRef": POD, "conditions": conditions},
    )  # fmt: skip

    assert found == SAID | {
        "ttl": "5m", "mode": "EvictDirectly", "paused": True, "pod_namespace": "ns", "pod_name": "p", "pod_uid": "pu",
        "reservation": "r", "phase": "Running", "status": "Eviction", "reason": "EvictComplete", "message": "m",
        "node": "n2", "new_pod": POD,
        "conditions": [{"type": "Eviction", "is_true": True, "reason": "EvictComplete"}],
    }  # fmt: skip


@pytest.mark.parametrize("spec", [None, {}, {"podRef": None, "reservationOptions": None}])
def test_a_job_that_states_nothing_is_there(spec):
    assert SAID == said(spec)


def test_a_job_of_the_wrong_form_is_refused_and_the_next_one_is_read():
    with pytest.raises(ObservationError):
        said({"podRef": [7]})

    assert SAID | {"is_terminating": True} == said(deletionTimestamp="2026-10-26T08:00:00Z")


def test_a_deleted_job_has_vanished():
    event = MIGRATIONS.translate(record({"metadata": METADATA}, "DELETED"), POLICY)

    gone = {key: SAID[key] for key in ("uid", "name", "resource_version")}
    assert ("podmigrationjob.vanished", gone) == (event.type, body(event))


def test_long_texts_of_a_job_are_cut():
    long = "x" * 10_000
    event = MIGRATIONS.translate(
        record({"metadata": METADATA, "spec": {"mode": long, "podRef": {"name": long}},
                "status": {"message": long, "conditions": [{"type": long, "message": long}] * 100}}),
        POLICY,
    )  # fmt: skip

    assert len(event.body) < 16 * 1024


@pytest.mark.parametrize(
    ("phase", "ready", "is_unready"),
    [("Running", "False", True), ("Running", "True", False), ("Running", "Unknown", False), ("Pending", "False", False)],
)  # fmt: skip
def test_a_running_pod_that_is_not_ready_says_so(phase, ready, is_unready):
    metadata = {"uid": "u", "name": "p", "namespace": "ns", "resourceVersion": "7"}
    status = {"phase": phase, "conditions": [{"type": "Ready", "status": ready}]}
    found = body(
        PODS.translate(record({"metadata": metadata, "spec": {}, "status": status}), POLICY)
    )

    assert is_unready == found.get("is_unready", False)


def test_costs_of_an_eviction_are_kept():
    costs = {
        "scheduling.koordinator.sh/eviction-cost": "7",
        "controller.kubernetes.io/pod-deletion-cost": "-3",
    }
    metadata = {
        "uid": "u",
        "name": "p",
        "namespace": "ns",
        "resourceVersion": "7",
        "annotations": costs | {"a": "b"},
    }
    found = PODS.translate(record({"metadata": metadata, "spec": {}}), POLICY)

    assert costs == msgspec.json.decode(found.body)["annotations"]
