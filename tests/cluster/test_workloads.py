"""What the demo runs is what the product takes it for; pure, no control plane."""

import json

from bus.kube.watch.labels import LabelPolicy, kept_labels
from bus.notebooks import jupyter
from bus.notebooks.choice import is_notebook, kinds_of, peer_of
from tests.cluster import workloads

TEAM = workloads.TEAMS[0]


def seen(item):
    """The first pod of an object as its controller makes it and the API server shows it, running."""
    template = item["spec"]["template"]
    metadata = {"uid": "u", "namespace": item["metadata"]["namespace"], "name": "p-0"}
    status = {"phase": "Running", "podIP": "10.0.0.7", "startTime": "2026-11-21T09:00:00Z"}
    return template | {"metadata": metadata | template["metadata"], "status": status}


def test_the_jupyter_pods_of_the_demo_are_notebooks_and_are_asked_as_jupyter():
    for team in workloads.TEAMS:
        for person in team.people:
            pod = seen(workloads.notebook(team, person))
            peer = peer_of(json.dumps(pod).encode())
            kept, _ = kept_labels(pod["metadata"]["labels"], LabelPolicy())

            assert is_notebook(kept, {})
            assert peer is not None
            assert peer.base_path == "/"
            assert jupyter.kind in kinds_of(peer)


def test_services_and_training_of_the_demo_are_no_notebooks():
    job = workloads.training(TEAM, "train", workers=1, gpus=1, seconds=60)
    for item in (workloads.service(TEAM, "inference", replicas=3), job):
        assert peer_of(json.dumps(seen(item)).encode()) is None
