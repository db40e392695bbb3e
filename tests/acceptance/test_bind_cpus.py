"""CPUs of their own on a real API server: no CPU belongs to two pods, whatever goes wrong."""

import json
import pathlib
from collections import Counter

import pytest

from bus.cpusets import parsed
from bus.memory import MemoryTransport
from bus.sources.catalogue import NODE_TOPOLOGIES
from reactors.scheduling.settings import SchedulingPolicy, SchedulingProfile
from tests.acceptance import binding
from tests.acceptance.binding import Meddled, Scene
from tests.cluster import build
from tests.cluster.plane import ControlPlane

pytestmark = [pytest.mark.kube, pytest.mark.slow, pytest.mark.timeout(290)]

CRD = pathlib.Path(build.__file__).parent / "crds" / "noderesourcetopologies.yaml"
TOPOLOGIES = "/apis/topology.node.k8s.io/v1alpha1/noderesourcetopologies"
STATUS = "scheduling.koordinator.sh/resource-status"
POLICY = SchedulingPolicy(profiles=(SchedulingProfile(weights={"NodeNUMAResource": 1}),))
#: Pods of four CPUs, of which the last ones find none; one of two says itself that it has them all.
NODES, CPUS, PODS = 5, 16, 24
#: The last label is reached where a bind is refused for good.
KILLED_AT = binding.LABELS[:-1]


@pytest.fixture
def plane(tmp_path):
    """Nobody else binds or simulates."""
    if reason := build.missing():
        pytest.skip(f"no control plane: {reason}")
    none = {"controllers": False, "scheduler": False, "simulator": False}
    with ControlPlane(tmp_path / "plane", **none) as running:
        running.kubectl("apply", "-f", str(CRD))
        running.kubectl("wait", "--for=condition=Established", "--timeout=60s", "-f", str(CRD))
        yield running


def topology(name):
    detail = [{"id": n, "core": n // 2, "socket": 0, "node": n // 8} for n in range(CPUS)]
    noted = {"node.koordinator.sh/cpu-topology": json.dumps({"detail": detail})}
    metadata = {"name": name, "annotations": noted}
    return {"apiVersion": "topology.node.k8s.io/v1alpha1", "kind": "NodeResourceTopology", "metadata": metadata}  # fmt: skip


def pod(number):
    found = binding.pod(f"p{number}", "4", 1)
    found["metadata"]["labels"] = {"koordinator.sh/qosClass": "LSR"}
    if number % 2:
        found["metadata"]["annotations"] = {STATUS: json.dumps({"cpuset": f"0-{CPUS - 1}"})}
    found["spec"]["priorityClassName"] = "koord-prod"
    return found


async def test_no_cpu_belongs_to_two_pods_and_every_pod_says_which_it_has(plane):
    names = binding.schedulable(plane, NODES, cpu="32", memory="64Gi")
    scene, transport = Scene(plane), MemoryTransport()
    for name in names:
        await scene.request("POST", TOPOLOGIES, topology(name))
    about = {"metadata": {"name": "koord-prod"}, "value": 9_500}
    await scene.request("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", about)
    sources = (*binding.SOURCES, NODE_TOPOLOGIES)
    async with (
        binding.watched(plane, transport, Meddled, sources) as cluster,
        binding.killed_again_and_again(
            lambda: binding.scheduling(transport, cluster, policy=POLICY), KILLED_AT
        ) as left,
    ):
        await scene.create(pod(number) for number in range(PODS))
        await scene.so_many_bound(NODES * CPUS // 4)
        await scene.all_told()
    found = [one for one in await scene.pods() if one["spec"].get("nodeName")]
    held = {one["metadata"]["name"]: json.loads(one["metadata"]["annotations"][STATUS])["cpuset"] for one in found}  # fmt: skip
    times = Counter(
        (one["spec"]["nodeName"], cpu)
        for one in found
        for cpu in parsed(held[one["metadata"]["name"]])
    )

    print(f"{len(found)} of {PODS} bound, {cluster.tried} binds, {cluster.wrong} went wrong")
    assert {len(parsed(cpus)) for cpus in held.values()} == {4}
    assert set(times.values()) == {1}
    assert (len(found), left) == (NODES * CPUS // 4, [])
