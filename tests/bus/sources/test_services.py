"""Services of training jobs as facts: whose they are and in which place, and nothing else of them."""

from bus.sources.catalogue import SERVICES
from tests.bus.sources.records import POLICY, body, record

LABELS = {
    "training.kubeflow.org/job-name": "train", "training.kubeflow.org/replica-type": "worker",
    "training.kubeflow.org/replica-index": "3", "team": "vision",
}  # fmt: skip
OWNER = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "name": "train", "uid": "j", "controller": True}  # fmt: skip
METADATA = {"uid": "u", "name": "train-worker-3", "namespace": "ns", "resourceVersion": "7"}
SAID = {"uid": "u", "name": "train-worker-3", "namespace": "ns", "resource_version": "7"}


def said(spec=None, **metadata):
    found = {"metadata": METADATA | metadata, "spec": spec or {}}
    return body(SERVICES.translate(record(found), POLICY))


def test_a_service_says_whose_it_is_and_in_which_place():
    found = said({"clusterIP": "10.0.0.1"}, labels=LABELS, ownerReferences=[OWNER])
    owner = {"kind": "TFJob", "name": "train", "uid": "j"}

    assert found == SAID | {"owner": owner, "job": "train", "type": "worker", "index": "3"}


def test_one_that_is_being_deleted_says_so():
    assert said(deletionTimestamp="2026-10-26T08:00:00Z") == SAID | {"is_terminating": True}


def test_a_deleted_service_has_vanished():
    event = SERVICES.translate(record({"metadata": METADATA}, "DELETED"), POLICY)

    assert (event.type, body(event)) == ("service.vanished", SAID)


def test_services_of_nobody_else_are_asked_for():
    assert SERVICES.path == "/api/v1/services?labelSelector=training.kubeflow.org/job-name"
