"""Binding on a real API server with the control plane's own volume controller: volumes are made where Bursar put the pods.

The test makes the volumes, as a provisioner does: where a claim names a node. The last claim's it cannot make at first.
Meanwhile the scheduler's process is killed wherever it binds claims and pods.
"""

import asyncio

import pytest

from bus.events.decisions import BindSettled
from bus.memory import MemoryTransport
from bus.sources.catalogue import CLAIMS, CSI_NODES, STORAGE_CLASSES, VOLUMES
from tests.acceptance import binding
from tests.acceptance.binding import PODS_PATH, Scene
from tests.cluster import build
from tests.cluster.api import MERGE
from tests.cluster.plane import ControlPlane

pytestmark = [pytest.mark.kube, pytest.mark.slow, pytest.mark.waits, pytest.mark.timeout(400)]

CLAIMS_PATH = "/api/v1/namespaces/default/persistentvolumeclaims"
SELECTED = "volume.kubernetes.io/selected-node"
SOURCES = (*binding.SOURCES, CLAIMS, VOLUMES, STORAGE_CLASSES, CSI_NODES)
CLASS = {
    "metadata": {"name": "made-late"},
    "provisioner": "test.bursar.io/nobody",
    "volumeBindingMode": "WaitForFirstConsumer",
}
COUNT = 5


@pytest.fixture
def plane(tmp_path):
    """With controllers; nobody else binds or simulates."""
    if reason := build.missing():
        pytest.skip(f"no control plane: {reason}")
    with ControlPlane(tmp_path / "plane", scheduler=False, simulator=False) as running:
        yield running


def claim(name):
    resources = {"requests": {"storage": "1Gi"}}
    spec = {"storageClassName": "made-late", "accessModes": ["ReadWriteOnce"]}
    return {"metadata": {"name": name}, "spec": spec | {"resources": resources}}


def claiming(name):
    pod = binding.pod(name, "100m", 1)
    pod["spec"]["volumes"] = [{"name": "home", "persistentVolumeClaim": {"claimName": name}}]
    return pod


def volume(claim, node):
    """What a provisioner makes."""
    metadata = claim["metadata"]
    ref = {key: metadata[key] for key in ("namespace", "name", "uid")}
    on = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    return {
        "metadata": {"name": f"pv-{metadata['name']}"},
        "spec": {
            "storageClassName": "made-late",
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "csi": {"driver": "test.bursar.io", "volumeHandle": metadata["name"]},
            "claimRef": {"kind": "PersistentVolumeClaim", "apiVersion": "v1", **ref},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [on]}]}},
        },
    }


async def provision(scene, failing):
    """Make what claims name nodes for, until cancelled; of those that fail the node is taken away, once each."""
    made = {}
    while True:
        for one in (await scene.request("GET", CLAIMS_PATH))["items"]:
            name = one["metadata"]["name"]
            node = one["metadata"].get("annotations", {}).get(SELECTED)
            if not node or name in made:
                continue
            if name in failing:
                failing.remove(name)
                patch = {"metadata": {"annotations": {SELECTED: None}}}
                await scene.request("PATCH", f"{CLAIMS_PATH}/{name}", patch, content_type=MERGE)
            else:
                made[name] = await scene.request(
                    "POST", "/api/v1/persistentvolumes", volume(one, node)
                )
        await asyncio.sleep(0.2)


async def test_volumes_are_made_where_pods_go_and_pods_go_where_their_volumes_are(plane):
    binding.schedulable(plane, 3)
    scene, transport, failing = Scene(plane), MemoryTransport(), {"last"}
    await scene.request("POST", "/apis/storage.k8s.io/v1/storageclasses", CLASS)
    names = [*(f"p{n}" for n in range(COUNT)), "last"]
    for name in names:
        await scene.request("POST", CLAIMS_PATH, claim(name))
    maker = asyncio.create_task(provision(scene, failing))
    async with binding.watched(plane, transport, sources=SOURCES) as cluster:
        async with binding.killed_again_and_again(
            lambda: binding.scheduling(transport, cluster), binding.CLAIMING
        ) as left:
            for some in (names[:-1], names[-1:]):
                await scene.create(map(claiming, some))
                await scene.all_bound()
            first = {one["metadata"]["name"]: one["spec"]["nodeName"] for one in await scene.pods()}
            # Notebooks that were stopped and start again: their volumes are where they were.
            for name in names:
                await scene.request("DELETE", f"{PODS_PATH}/{name}?gracePeriodSeconds=0")
            await scene.create(map(claiming, names))
            await scene.all_bound()
    maker.cancel()
    await asyncio.gather(maker, return_exceptions=True)

    again = {one["metadata"]["name"]: one["spec"]["nodeName"] for one in await scene.pods()}
    settled = [BindSettled.read(e) for e in transport.events if e.type == BindSettled.wire_type]
    said = [one.message for fact in settled for one in fact.failed]
    assert again == first and not failing and left == []
    assert [one for one in said if one.startswith("no volume could be made for last on ")]
