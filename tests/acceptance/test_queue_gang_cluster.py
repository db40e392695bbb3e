"""A Job that waits in the queue of a quota of gangs gets nodes for all its pods or for none, on a real API server."""

import json

import pytest

from tests.acceptance.admission_site import LABEL, Site, quota, workload
from tests.cluster.api import MERGE

pytestmark = [pytest.mark.kube, pytest.mark.slow, pytest.mark.waits, pytest.mark.timeout(240)]

PODS, NODE = "/api/v1/namespaces/default/pods", "/api/v1/nodes/node-2"


@pytest.fixture
def site(start_plane, tmp_path):
    plane = start_plane(controllers=True, scheduler=True, simulator=True)
    plane.create_nodes(3)
    found = Site(plane, tmp_path)
    found.environment["BURSAR_SCHEDULING__MODE"] = "on"
    found.begin()
    yield found
    found.stop()


def test_what_is_released_gets_nodes_for_all_its_pods_or_for_none(site):
    """Three pods of 60 of 96 cores, and two nodes: all of them wait until there is a third."""
    api = site.plane.api
    site.apply(quota("train", {"limits.cpu": "200"}, queue={"hold": True, "gang": True}))
    site.until(lambda: site.quota("train").get("status"))
    api.request("PATCH", NODE, {"spec": {"unschedulable": True}}, content_type=MERGE)
    job = workload("Job", "train", 60, 3)
    job["metadata"]["labels"][LABEL] = "train"
    job["spec"]["template"]["spec"]["schedulerName"] = "bursar"
    assert "created" in site.plane.kubectl("create", "-f", "-", input=json.dumps(job))

    def pods():
        return api.request("GET", PODS)["items"]

    def waits(pod):
        said = pod["status"].get("conditions", ())
        return any(one["reason"] == "Unschedulable" and "gang" in one["message"] for one in said)

    site.until(lambda: sum(map(waits, pods())) == 3, 60)
    assert not any(one["spec"].get("nodeName") for one in pods())
    why = site.ask("why", "gang/default/train").stdout
    assert "train" in why, why
    api.request("PATCH", NODE, {"spec": {"unschedulable": False}}, content_type=MERGE)
    nodes = {f"node-{number}" for number in range(3)}
    site.until(lambda: {one["spec"].get("nodeName") for one in pods()} == nodes, 60)
