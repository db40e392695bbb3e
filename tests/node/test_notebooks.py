"""A real Jupyter server on the pod network of a real node: probed there, stopped for being idle, and given back.

Source: docs/culling.md.
"""

import os
import signal
import subprocess
import sys
from contextlib import suppress

import pytest

from tests.acceptance.bookkeeping import second
from tests.acceptance.up_process import Up
from tests.cluster.api import eventually
from tests.node.node import IMAGE

pytestmark = [
    pytest.mark.node, pytest.mark.kube, pytest.mark.nats, pytest.mark.slow, pytest.mark.waits,
    pytest.mark.timeout(900),
]  # fmt: skip

NAMESPACE = "notebooks"
SETS = f"/apis/apps/v1/namespaces/{NAMESPACE}/statefulsets"
QUICK = {
    "BURSAR_CULLING__MODE": "on",
    "BURSAR_CULLING__POLICY__IDLE_SECONDS": "5",
    "BURSAR_CULLING__POLICY__WARNING_SECONDS": "1",
    "BURSAR_CULLING__POLICY__CHECK_PERIOD_SECONDS": "15",
}


def jupyter():
    """A StatefulSet of one server: this machine's Python and its packages, mounted into an image that has neither."""
    folders = {path: os.path.realpath(path) for path in ("/usr", "/lib", "/lib64")}
    folders |= {path: path for path in {sys.prefix, sys.base_prefix} if not path.startswith("/usr")}
    mounts = [
        {"name": f"m{number}", "mountPath": path, "readOnly": True}
        for number, path in enumerate(folders)
    ]
    volumes = [
        {"name": f"m{number}", "hostPath": {"path": path}}
        for number, path in enumerate(folders.values())
    ]
    server = {
        "name": "server",
        "image": IMAGE,
        "imagePullPolicy": "Never",
        "command": [
            sys.executable, "-m", "jupyter_server", "--ip=0.0.0.0", "--port=8888", "--allow-root", "--no-browser",
            "--IdentityProvider.token=", "--ServerApp.root_dir=/tmp",
        ],
        "env": [{"name": "HOME", "value": "/tmp"}, {"name": "PYTHONDONTWRITEBYTECODE", "value": "1"}],
        "ports": [{"containerPort": 8888}],
        "readinessProbe": {"httpGet": {"path": "/api", "port": 8888}, "periodSeconds": 1, "timeoutSeconds": 5},
        "volumeMounts": [*mounts, {"name": "tmp", "mountPath": "/tmp"}],
    }  # fmt: skip
    template = {
        "metadata": {"labels": {"app": "nb", "bursar.io/probe": "jupyter"}},
        "spec": {
            "terminationGracePeriodSeconds": 5,
            "automountServiceAccountToken": False,
            "containers": [server],
            "volumes": [*volumes, {"name": "tmp", "emptyDir": {}}],
        },
    }
    spec = {"serviceName": "nb", "selector": {"matchLabels": {"app": "nb"}}, "template": template}
    return {"metadata": {"name": "nb"}, "spec": {**spec, "replicas": 1}}


@pytest.fixture
def up(node, tmp_path):
    up = Up(node.plane, tmp_path, **QUICK)
    up.start()
    yield up
    with suppress(ProcessLookupError):
        up.end(signal.SIGKILL)


def test_an_idle_notebook_is_stopped_and_given_back(node, up, tmp_path):
    api = node.plane.api
    api.request("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    api.request("POST", SETS, jupyter())
    first = eventually(lambda: ready(api), seconds=120)
    stopped = eventually(lambda: of(api, replicas=0), seconds=120)
    eventually(lambda: "nb-0" not in names(api), seconds=60)
    eventually(lambda: [one.is_open for one in up.accounts(NAMESPACE)] == [False])
    [account] = up.accounts(NAMESPACE)
    decision = stopped["metadata"]["annotations"]["bursar.io/notebook-culled-by"]
    program = "from deploy.cli import main; main()"
    words = [sys.executable, "-c", program, "cull", "undo", decision, "--data", str(up.folder)]
    environment = {"PATH": os.defpath, "HOME": str(tmp_path)}
    undone = subprocess.run(words, env=environment, text=True, capture_output=True)
    again = eventually(lambda: ready(api), seconds=120)

    assert (0, 1) == (undone.returncode, of(api)["spec"]["replicas"]), undone.stderr
    assert first["metadata"]["uid"] not in (again["metadata"]["uid"], "")
    assert first["metadata"]["uid"] == account.uid
    assert bound(first) == account.holdings[0].start_s
    assert () == account.flags
    api.request("DELETE", f"{SETS}/nb")
    eventually(lambda: not names(api), seconds=60)


def names(api):
    items = api.request("GET", f"/api/v1/namespaces/{NAMESPACE}/pods")["items"]
    return [one["metadata"]["name"] for one in items]


def of(api, replicas=None):
    """The StatefulSet, where it asks for so many."""
    found = api.request("GET", f"{SETS}/nb")
    return found if replicas in (None, found["spec"]["replicas"]) else None


def ready(api):
    """The pod, where the kubelet's own probe was answered."""
    for one in api.request("GET", f"/api/v1/namespaces/{NAMESPACE}/pods")["items"]:
        conditions = {c["type"]: c["status"] for c in one["status"].get("conditions", ())}
        if conditions.get("Ready") == "True" and "deletionTimestamp" not in one["metadata"]:
            return one
    return None


def bound(pod):
    [found] = [c for c in pod["status"]["conditions"] if c["type"] == "PodScheduled"]
    return second(found["lastTransitionTime"])
