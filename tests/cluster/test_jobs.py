"""Steps of training jobs on a real API server: each pod once, never a namesake, and statuses as its schema takes them."""

import pytest

from bus.kube.client import Access, connect
from reactors.jobs.effectors.run import JobEffector
from tests.cluster.training import CRDS, PODS, create, delete, end, job, path_of, report

pytestmark = pytest.mark.kube


@pytest.fixture
async def effector(plane):
    plane.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(CRDS))
    plane.kubectl("wait", "--for=condition=Established", "--timeout=60s", "-f", str(CRDS))
    cluster = await connect(Access(str(plane.kubeconfig)))
    yield JobEffector(cluster)
    await cluster.close()


async def test_a_pod_and_its_service_are_made_once(plane, namespace, effector):
    found = plane.api.request("POST", path_of("TFJob", namespace), job("train", "TFJob", namespace))
    for _ in range(2):
        assert ("done", "") == await effector.act(create(found))
    pod = plane.api.request("GET", f"{PODS.format(namespace)}/train-worker-0-1")
    services = plane.api.request("GET", f"/api/v1/namespaces/{namespace}/services")["items"]

    assert pod["metadata"]["ownerReferences"][0]["uid"] == found["metadata"]["uid"]
    assert [one["metadata"]["name"] for one in services] == ["train-worker-0"]


async def test_a_pod_of_another_owner_is_no_answer(plane, namespace, effector):
    body = {"metadata": {"name": "train-worker-0-1"}, "spec": {"containers": [{"name": "a", "image": "x"}]}}  # fmt: skip
    plane.api.request("POST", PODS.format(namespace), body)
    found = plane.api.request("POST", path_of("TFJob", namespace), job("train", "TFJob", namespace))

    assert (await effector.act(create(found)))[0] == "refused"


async def test_a_status_is_written_and_an_end_is_never_taken_back(plane, namespace, effector):
    path = path_of("PyTorchJob", namespace)
    found = plane.api.request("POST", path, job("train", "PyTorchJob", namespace))
    assert ("done", "") == await effector.act(report(found))
    status = plane.api.request("GET", f"{path}/train")["status"]
    assert [one["type"] for one in status["conditions"]] == ["Created", "Succeeded"]
    scale = plane.api.request("GET", f"{path}/train/scale")
    selector = scale["status"].pop("selector")
    assert (scale["spec"], scale["status"]) == ({"replicas": 2}, {"replicas": 0})
    counts = {"succeeded": 2, "selector": selector}
    assert status["replicaStatuses"] == {"Worker": counts}

    assert (await effector.act(report(found, "Created", "Running")))[0] == "stale"


async def test_a_namesake_is_never_touched(plane, namespace, effector):
    path = path_of("TFJob", namespace)
    before = plane.api.request("POST", path, job("train", "TFJob", namespace))
    plane.api.request("DELETE", f"{path}/train")
    found = plane.api.request("POST", path, job("train", "TFJob", namespace))
    assert ("done", "") == await effector.act(create(found))
    pod = plane.api.request("GET", f"{PODS.format(namespace)}/train-worker-0-1")
    pod["metadata"]["uid"] = "another"
    steps = (create(before), report(before), end(before), delete(before, pod))

    assert [(await effector.act(one))[0] for one in steps] == ["gone"] * 4
