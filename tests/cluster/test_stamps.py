"""Stamps of activity on a real API server's Notebooks: on this object, in this version, or not at all."""

import pytest

from bus.kube.client import Access, connect
from bus.kube.crds.culling import CHECKED_AT, LAST_ACTIVITY
from reactors.culling.effectors import StampWriter
from tests.cluster import notebooks
from tests.cluster.api import ApiError
from tests.factories import owner, pod_observed, workload_observed
from tests.reactors.culling.scene import Notebooks

pytestmark = pytest.mark.kube

PATH = "/apis/kubeflow.org/v1/namespaces/{}/notebooks/nb"


@pytest.fixture(scope="module")
def installed(plane):
    notebooks.install(plane)
    return plane


@pytest.fixture
async def cluster(installed):
    opened = await connect(Access(str(installed.kubeconfig)))
    yield opened
    await opened.close()


async def seen(found, namespace):
    """A scene that knows the Notebook ``found`` and an idle pod of it."""
    uid = found["metadata"]["uid"]
    at = Notebooks()
    await at.policy(idle_seconds=86_400)
    annotations = found["metadata"].get("annotations", {})
    place = {"namespace": namespace, "name": "nb", "kind": "Notebook", "annotations": annotations}
    await at.say(
        workload_observed(uid, **place),
        pod_observed("nb-0", owner=owner(uid, "Notebook", "nb"), namespace=namespace),
    )
    at.kernels["nb-0"] = {}
    await at.pass_time(20)
    return at


def read(plane, namespace):
    return notebooks.get(plane, namespace, "Notebook")["metadata"].get("annotations", {})


async def test_both_are_written_beside_what_is_there(installed, namespace, cluster):
    found = notebooks.create(installed, namespace, "Notebook")
    at = await seen(found, namespace)

    assert 1 == await StampWriter(at.runner.replica, cluster, at.clock).round()
    assert {LAST_ACTIVITY, CHECKED_AT} == set(read(installed, namespace))
    assert 0 == await StampWriter(at.runner.replica, cluster, at.clock).round()


async def test_a_successor_of_its_name_gets_none_and_what_is_gone_is_not_made_again(
    installed, namespace, cluster
):
    found = notebooks.create(installed, namespace, "Notebook")
    at = await seen(found, namespace)
    installed.api.request("DELETE", PATH.format(namespace))

    assert 0 == await StampWriter(at.runner.replica, cluster, at.clock).round()
    with pytest.raises(ApiError, match="404"):
        notebooks.get(installed, namespace, "Notebook")
    notebooks.create(installed, namespace, "Notebook")
    assert 0 == await StampWriter(at.runner.replica, cluster, at.clock).round()
    assert {} == read(installed, namespace)


async def test_an_older_version_is_not_written_over(installed, namespace, cluster):
    """Between the look and the write its owner stops it: the write fails, and the next round finds it stopped."""
    found = notebooks.create(installed, namespace, "Notebook")
    at = await seen(found, namespace)
    stop = {"metadata": {"annotations": {"kubeflow-resource-stopped": "by its owner"}}}

    class Between:
        async def get(self, path):
            looked = await cluster.get(path)
            await cluster.merge(path, stop)
            return looked

        async def merge(self, path, body):
            return await cluster.merge(path, body)

    assert 0 == await StampWriter(at.runner.replica, Between(), at.clock).round()
    assert {"kubeflow-resource-stopped": "by its owner"} == read(installed, namespace)
