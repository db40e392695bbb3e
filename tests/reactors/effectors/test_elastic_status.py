"""What an ElasticQuota's object is made to say, and how: status, and Koordinator's annotations."""

import pytest

from bus.errors import NotFoundError
from projections.quota_trees.elastic import Figures
from reactors.effectors.elastic_status import ElasticStatus
from reactors.effectors.quota_status import StatusWriter

PREFIX = "quota.scheduling.koordinator.sh/"
PATH = "/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/ns/elasticquotas/team"


def status(used=1500, uid="u"):
    figures = Figures(
        request={"cpu": 6000}, limited={"cpu": 4000}, used={"cpu": used, "memory": 2**30},
        effective_min={"cpu": 2000}, runtime={"cpu": 4000, "memory": 2**34}, allocated={},
        guaranteed={}, child_request={"cpu": 5000},
    )  # fmt: skip
    return ElasticStatus(name="team", namespace="ns", uid=uid, figures=figures)


class Server:
    """One quota; where there is a status subresource the object itself takes no status."""

    def __init__(self, *, has_subresource=True):
        self.has_subresource = has_subresource
        self.object = {"metadata": {"uid": "u", "resourceVersion": "1"}, "spec": {"max": {}}}
        self.patches = []

    async def get(self, path):
        assert path == PATH
        return self.object

    async def apply(self, path, body):
        self.patches.append(path)
        assert body["metadata"]["resourceVersion"] == self.object["metadata"]["resourceVersion"]
        is_status = path.endswith("/status")
        if is_status and not self.has_subresource:
            raise NotFoundError(message=path)
        changed = dict(self.object)
        version = str(int(self.object["metadata"]["resourceVersion"]) + 1)
        changed["metadata"] = {**self.object["metadata"], "resourceVersion": version}
        if is_status or not self.has_subresource:
            changed["status"] = body["status"]
        if not is_status:
            changed["metadata"]["annotations"] = body["metadata"]["annotations"]
        self.object = changed
        return changed


def test_amounts_are_said_as_koordinator_says_them():
    told = status().content()

    assert told["used"] == {"cpu": "1500m", "memory": "1Gi"}
    assert told["annotations"] == {
        PREFIX + "runtime": '{"cpu":"4","memory":"16Gi"}',
        PREFIX + "request": '{"cpu":"6"}',
        PREFIX + "child-request": '{"cpu":"5"}',
        PREFIX + "guaranteed": '{"cpu":"2"}',
        PREFIX + "allocated": '{"cpu":"1500m","memory":"1Gi"}',
    }


@pytest.mark.parametrize("has_subresource", [True, False])
async def test_status_and_annotations_are_written_with_or_without_a_subresource(has_subresource):
    server = Server(has_subresource=has_subresource)
    outcome = await StatusWriter(server, per_second=1e9).write(status())

    assert outcome.result == "written"
    assert server.object["status"] == {"used": {"cpu": "1500m", "memory": "1Gi"}}
    assert PREFIX + "runtime" in server.object["metadata"]["annotations"]
    assert server.object["spec"] == {"max": {}}
    assert server.patches == [PATH, *[f"{PATH}/status"] * has_subresource]


async def test_what_the_object_says_already_is_not_written_again_and_a_namesake_is_left_alone():
    server = Server()
    writer = StatusWriter(server, per_second=1e9)
    await writer.write(status())
    server.patches.clear()

    assert (await writer.write(status())).result == "unchanged"
    assert (await writer.write(status(uid="another"))).result == "gone"
    assert server.patches == []
