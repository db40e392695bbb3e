"""The control plane keeps the promises that other tests build on."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.api import STRATEGIC, ApiError, Json, eventually
from tests.cluster.plane import ControlPlane

pytestmark = pytest.mark.kube

ROOT = Path(__file__).parents[2]


def pod(name: str, *, annotations: dict[str, str] | None = None, **spec: Any) -> Json:
    requests = {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1"}
    container = {
        "name": "main",
        "image": "train",
        "resources": {"requests": requests, "limits": requests},
    }
    return {
        "metadata": {"name": name, "annotations": annotations or {}},
        "spec": {"containers": [container], **spec},
    }


def create_pod(plane: ControlPlane, namespace: str, name: str, **options: Any) -> str:
    path = f"/api/v1/namespaces/{namespace}/pods"
    plane.api.request("POST", path, pod(name, **options))
    eventually(lambda: phase(plane, f"{path}/{name}") != "Pending")
    return f"{path}/{name}"


def phase(plane: ControlPlane, path: str) -> str:
    return str(plane.api.request("GET", path)["status"]["phase"])


@pytest.fixture
def pool(plane: ControlPlane, namespace: str) -> Iterator[list[str]]:
    """Twenty more nodes, labelled with the test's namespace."""
    nodes = plane.create_nodes(20, prefix=namespace, labels={"bursar.test/pool": namespace})
    yield nodes
    for node in nodes:
        plane.api.request("DELETE", f"/api/v1/nodes/{node}")


def test_two_hundred_pods_of_a_deployment_run_on_twenty_nodes(plane, namespace, pool):
    labels = {"app": "service"}
    template = pod("service", nodeSelector={"bursar.test/pool": namespace})
    template["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "100m"}}
    deployment = {
        "metadata": {"name": "service"},
        "spec": {
            "replicas": 200,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": template["spec"]},
        },
    }
    plane.api.request("POST", f"/apis/apps/v1/namespaces/{namespace}/deployments", deployment)

    def pods() -> list[Json]:
        return plane.api.request("GET", f"/api/v1/namespaces/{namespace}/pods")["items"]

    def phases() -> Counter[str]:
        return Counter(item["status"]["phase"] for item in pods())

    eventually(lambda: phases() == {"Running": 200}, seconds=120, every=0.5)

    assert set(pool) == {item["spec"]["nodeName"] for item in pods()}


def test_a_running_pod_is_resized_in_place(plane, namespace):
    path = create_pod(plane, namespace, "notebook")
    more = {"cpu": "2500m"}
    patch = {"containers": [{"name": "main", "resources": {"requests": more, "limits": more}}]}
    plane.api.request("PATCH", f"{path}/resize", {"spec": patch}, content_type=STRATEGIC)

    def held() -> Json:
        [status] = plane.api.request("GET", path)["status"]["containerStatuses"]
        return {"uses": status["resources"]["requests"], "holds": status["allocatedResources"]}

    wanted = {"cpu": "2500m", "memory": "1Gi", "nvidia.com/gpu": "1"}

    assert eventually(lambda: held()["uses"]["cpu"] != "1" and held()) == {
        "uses": wanted,
        "holds": wanted,
    }


def test_a_resize_on_hold_changes_what_is_asked_but_not_what_is_held(plane, namespace):
    path = create_pod(plane, namespace, "held", annotations={"bursar.test/resize": "hold"})
    version = plane.api.request("GET", path)["metadata"]["resourceVersion"]
    more = {"cpu": "2"}
    patch = {"containers": [{"name": "main", "resources": {"requests": more, "limits": more}}]}
    plane.api.request("PATCH", f"{path}/resize", {"spec": patch}, content_type=STRATEGIC)
    seen = [
        (
            event["object"]["spec"]["containers"][0]["resources"]["requests"]["cpu"],
            event["object"]["status"]["containerStatuses"][0]["resources"]["requests"]["cpu"],
        )
        for event in plane.api.watch(f"/api/v1/namespaces/{namespace}/pods", version, seconds=2)
    ]

    assert [("2", "1")] == seen


@pytest.mark.parametrize(("code", "ending"), [("0", "Succeeded"), ("3", "Failed")])
def test_a_pod_finishes_when_its_annotation_says_so(plane, namespace, code, ending):
    annotations = {"bursar.test/run-seconds": "2", "bursar.test/exit-code": code}
    path = create_pod(plane, namespace, "training", annotations=annotations)
    eventually(lambda: phase(plane, path) != "Running")
    status = plane.api.request("GET", path)["status"]
    ended = status["containerStatuses"][0]["state"]["terminated"]

    assert (ending, int(code), True) == (
        status["phase"],
        ended["exitCode"],
        ended["finishedAt"] > ended["startedAt"],
    )


@pytest.mark.parametrize(
    ("annotations", "wanted"),
    [
        ({"refuse": "OutOfcpu"}, ("OutOfcpu", [], "")),
        ({"run-seconds": "1", "lost": "yes"}, ("", [("ContainerStatusUnknown", False)], "")),
        (
            {"run-seconds": "1", "evict": "yes"},
            ("Evicted", [("Error", True)], "TerminationByKubelet"),
        ),
    ],
    ids=["refused", "lost", "evicted"],
)
def test_a_pod_fails_as_a_kubelet_reports_it(plane, namespace, annotations, wanted):
    keys = {f"bursar.test/{key}": text for key, text in annotations.items()}
    path = create_pod(plane, namespace, "training", annotations=keys)
    eventually(lambda: phase(plane, path) == "Failed")
    status = plane.api.request("GET", path)["status"]
    ended = [one["state"]["terminated"] for one in status.get("containerStatuses", [])]
    reasons = [c["reason"] for c in status["conditions"] if c["type"] == "DisruptionTarget"]

    assert wanted == (
        status.get("reason", ""),
        [(one["reason"], bool(one.get("finishedAt"))) for one in ended],
        "".join(reasons),
    )


@pytest.mark.parametrize(
    ("annotations", "wanted"),
    [
        pytest.param(
            {},
            [("MODIFIED", 30, "Running"), ("MODIFIED", 0, "Running"), ("DELETED", 0, "Running")],
            id="the node agent confirms at once",
        ),
        pytest.param(
            {"bursar.test/stop-seconds": "1", "bursar.test/exit-code": "1"},
            [
                ("MODIFIED", 30, "Running"),
                ("MODIFIED", 30, "Failed"),
                ("MODIFIED", 0, "Failed"),
                ("DELETED", 0, "Failed"),
            ],
            id="the node agent reports ended containers first",
        ),
    ],
)
def test_a_deletion_ends_with_a_grace_period_of_zero(plane, namespace, annotations, wanted):
    path = create_pod(plane, namespace, "notebook", annotations=annotations)
    version = plane.api.request("GET", path)["metadata"]["resourceVersion"]
    plane.api.request("DELETE", path)
    seen = []
    for event in plane.api.watch(f"/api/v1/namespaces/{namespace}/pods", version, seconds=10):
        metadata, status = event["object"]["metadata"], event["object"]["status"]
        seen.append((event["type"], metadata["deletionGracePeriodSeconds"], status["phase"]))
        if event["type"] == "DELETED":
            break

    assert wanted == seen


def test_the_rights_of_a_service_account_are_checked(plane, namespace):
    plane.kubectl("create", "serviceaccount", "reader", f"--namespace={namespace}")
    account = f"--as=system:serviceaccount:{namespace}:reader"

    with pytest.raises(RuntimeError, match=r"Forbidden|forbidden"):
        plane.kubectl("get", "pods", f"--namespace={namespace}", account)


def test_a_killed_api_server_returns_with_its_data(own_plane):
    path = "/api/v1/namespaces/default/configmaps"
    body = {"metadata": {"name": "kept"}, "data": {"answer": "42"}}
    before = own_plane.api.request("POST", path, body)
    own_plane.kill_apiserver()
    with pytest.raises(ConnectionRefusedError):
        own_plane.api.request("GET", f"{path}/kept")
    own_plane.start_apiserver()

    assert before == own_plane.api.request("GET", f"{path}/kept")


def test_pods_run_again_soon_after_the_api_server_was_killed(start_plane):
    plane = start_plane(controllers=True, scheduler=True, simulator=True)
    plane.create_nodes(1)
    create_pod(plane, "default", "before")
    plane.kill_apiserver()
    plane.start_apiserver()
    began = time.monotonic()
    create_pod(plane, "default", "after")

    assert time.monotonic() - began < 20


def test_a_paused_api_server_is_silent_and_then_answers(own_plane):
    own_plane.pause_apiserver()
    with pytest.raises(TimeoutError):
        own_plane.api.request("GET", "/version", seconds=0.5)
    own_plane.resume_apiserver()

    assert own_plane.api.request("GET", "/version")["major"] == "1"


@pytest.mark.parametrize("watch_cache", [True, False], ids=["watch cache", "no watch cache"])
def test_compaction_makes_an_old_version_gone(start_plane, watch_cache):
    plane: ControlPlane = start_plane(watch_cache=watch_cache)
    path = "/api/v1/namespaces/default/configmaps"
    version = plane.api.request("GET", path)["metadata"]["resourceVersion"]
    plane.api.request("POST", path, {"metadata": {"name": "unseen"}})
    before = [event["type"] for event in plane.api.watch(path, version, seconds=1)]
    plane.compact()
    [after] = plane.api.watch(path, version, seconds=1)
    relisted = plane.api.request("GET", path)["items"]

    assert ("ADDED" in before, "ERROR", 410, "Expired", True) == (
        True,
        after["type"],
        after["object"]["code"],
        after["object"]["reason"],
        "unseen" in [item["metadata"]["name"] for item in relisted],
    )


def test_nothing_outlives_a_killed_test(start_plane: Callable[..., ControlPlane], tmp_path):
    start_plane()  # skips here, with its reason, where there are no binaries
    program = (
        "import asyncio, time; from pathlib import Path; from tests.cluster.plane import *\n"
        f"plane = ControlPlane(Path({str(tmp_path / 'doomed')!r}), controllers=False)\n"
        # From a thread that ends, because parent death signals would fire just then.
        "asyncio.run(asyncio.to_thread(plane.start)); time.sleep(1)\n"
        "print(*(plane._processes[name].pid for name in plane.memory_bytes()), flush=True)\n"
        "time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE) as run:
        pids = [int(word) for word in run.stdout.readline().split()]
        alive = sum(is_running(pid) for pid in pids)
        run.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 10
    while any(map(is_running, pids)) and time.monotonic() < deadline:
        time.sleep(0.1)

    assert (4, 0) == (alive, sum(is_running(pid) for pid in pids))


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # An orphan that nobody reaps is dead all the same.
    status = Path(f"/proc/{pid}/stat")
    return not (status.exists() and status.read_text().rpartition(")")[2].split()[0] == "Z")


def test_an_error_of_the_api_carries_its_status(plane, namespace):
    with pytest.raises(ApiError) as caught:
        plane.api.request("GET", f"/api/v1/namespaces/{namespace}/pods/none")

    assert (404, "NotFound") == (caught.value.status, caught.value.body["reason"])
