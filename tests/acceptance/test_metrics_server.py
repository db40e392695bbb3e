"""`bursar up` places pods by what metrics-server measures, read from a real API server.

metrics-server itself does not run here: what it serves is there as plain objects.
"""

import contextlib
import json
import pathlib
import signal

import pytest

from bus.clock import SystemClock, format_stamp
from tests.acceptance.up_process import Up
from tests.cluster import build
from tests.cluster.api import eventually

pytestmark = [pytest.mark.kube, pytest.mark.nats, pytest.mark.timeout(240)]

CRD = pathlib.Path(build.__file__).parent / "crds" / "nodemetrics.yaml"
PATH, NODES = "/apis/metrics.k8s.io/v1beta1/nodes", "/api/v1/nodes"
PROFILE = {"name": "by-load", "weights": {"LoadAware": 10}, "fields": {"LoadAware": {"measured_by": "metrics-server"}}}  # fmt: skip


@pytest.fixture
def nodes(plane):
    """Two nodes for pods that select them; the first one uses nearly all that it has."""
    plane.kubectl("apply", "--server-side", "-f", str(CRD))
    plane.kubectl("wait", "--for=condition=Established", "--timeout=60s", "-f", str(CRD))
    names = plane.create_nodes(2, gpus=0, prefix="measured", cpu="10", labels={"measured": "yes"})
    for name, cpu in zip(names, ("9500m", "250m"), strict=True):
        usage, now = {"cpu": cpu, "memory": "1Gi"}, format_stamp(SystemClock().now_us())
        said = {"timestamp": now, "window": "20s", "usage": usage}
        about = {"apiVersion": "metrics.k8s.io/v1beta1", "kind": "NodeMetrics", "metadata": {"name": name}}  # fmt: skip
        plane.api.request("POST", PATH, about | said)
    yield names
    for name in names:
        plane.api.request("DELETE", f"{NODES}/{name}")
    plane.kubectl("delete", "-f", str(CRD))


def test_a_pod_goes_where_there_is_load_to_spare(plane, namespace, nodes, tmp_path):
    policy = {"profiles": [PROFILE]}
    up = Up(plane, tmp_path, BURSAR_SCHEDULING__MODE="on", BURSAR_SCHEDULING__POLICY=json.dumps(policy))  # fmt: skip
    pods = f"/api/v1/namespaces/{namespace}/pods"
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": "1"}}}
    spec = {
        "schedulerName": "by-load",
        "nodeSelector": {"measured": "yes"},
        "containers": [container],
    }
    up.start()
    try:
        for name in ("p", "q", "r"):
            plane.api.request("POST", pods, {"metadata": {"name": name}, "spec": spec})
        placed = eventually(lambda: all(where := nodes_of(plane, pods)) and where, seconds=60)
    finally:
        with contextlib.suppress(ProcessLookupError):
            up.end(signal.SIGTERM)

    assert placed == [nodes[1]] * 3
    assert up.is_whole()


def nodes_of(plane, pods):
    items = plane.api.request("GET", pods)["items"]
    return [one["spec"].get("nodeName", "") for one in items]
