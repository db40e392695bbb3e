"""Cards by claim on a real control plane, as the demonstration has them: the scheduler gives them out, and parts share a card."""

import pytest

from tests.cluster import devices, workloads
from tests.cluster.api import eventually
from tests.cluster.workloads import Team

pytestmark = pytest.mark.kube

NODE = "claimed-0"


@pytest.fixture
def team(plane, namespace):
    """A team in a namespace of its own, beside a node of one divided card."""
    plane.create_nodes(1, gpus=0, prefix="claimed")
    offered = devices.classes() + devices.slices(NODE, "NVIDIA-B200", 1, divided=True)
    for one in (*offered, devices.template(namespace, devices.PART)):
        plane.api.request("POST", workloads.path(one).rpartition("/")[0], one)
    yield Team(namespace, ("ada",))
    for one in offered:
        plane.api.request("DELETE", workloads.path(one))
    plane.api.request("DELETE", f"/api/v1/nodes/{NODE}")


def test_pods_get_parts_of_a_card_until_its_counter_is_used_up(plane, team):
    job = workloads.training(team, "parts", workers=9, gpus=0, seconds=600, claim=devices.PART)
    plane.api.request("POST", workloads.path(job).rpartition("/")[0], job)
    pods = f"/api/v1/namespaces/{team.name}/pods"
    claims = f"/apis/{devices.API}/namespaces/{team.name}/resourceclaims"

    def given():
        found = plane.api.request("GET", claims)["items"]
        allocated = [one["status"]["allocation"] for one in found if "allocation" in one["status"]]
        return [result for one in allocated for result in one["devices"]["results"]]

    def running():
        found = plane.api.request("GET", pods)["items"]
        return [one for one in found if one["status"]["phase"] == "Running"]

    eventually(lambda: len(running()) == len(given()) > 1, seconds=60)
    parts = [devices.PARTS_GIB[int(one["device"].rpartition("-")[2])] for one in given()]

    assert len(parts) < 9 and sum(parts) <= devices.CARD_GIB
    assert {one["spec"]["nodeName"] for one in running()} == {NODE}
