"""Binding on a real API server: every pod gets a node, once, and no node gets more than it has, whatever goes wrong."""

import asyncio

import pytest

from bus.events.decisions import BindSettled, SchedulingPassed
from bus.events.nodes import NodeVanished
from bus.memory import MemoryTransport
from tests.acceptance import binding
from tests.acceptance.binding import PODS_PATH, Meddled, Scene
from tests.cluster import build
from tests.cluster.plane import ControlPlane

pytestmark = [pytest.mark.kube, pytest.mark.slow, pytest.mark.timeout(400)]

NODES, EACH = 50, 100
#: Pods of two cores for which there is no room for all.
TOO_MANY = 90


@pytest.fixture
def plane(tmp_path):
    """Nobody else binds or simulates."""
    if reason := build.missing():
        pytest.skip(f"no control plane: {reason}")
    none = {"controllers": False, "scheduler": False, "simulator": False}
    with ControlPlane(tmp_path / "plane", **none) as running:
        yield running


async def test_all_are_bound_and_no_node_holds_more_than_it_has(plane):
    names = binding.schedulable(plane, NODES, cpu="6", memory="24Gi")
    scene, transport = Scene(plane), MemoryTransport()
    async with binding.watched(plane, transport, Meddled) as cluster:
        # Some of them late: a kill may end the process before it says what became of an early one.
        cluster.replaced = {"p3", "p50", "q7", "q40", "q80"}
        cluster.replace, cluster.forbidden = scene.replace, {"q13"}
        async with binding.killed_again_and_again(
            lambda: binding.scheduling(transport, cluster)
        ) as left:
            await scene.create(binding.pods(EACH, 1))
            await scene.all_bound()
            cordoned = names[:10]
            for name in cordoned:
                await scene.cordon(name)
            async with binding.scheduling(transport, cluster) as second:
                known = second.replica.cluster_state.nodes
                async with asyncio.timeout(30):
                    while sum(one.unschedulable for one in known.values()) < len(cordoned):
                        await asyncio.sleep(0.05)
                await scene.create(binding.pods(EACH, 2, "q"))
                await scene.all_bound()
                await scene.create([binding.pod(f"large{n}", "2", 1) for n in range(TOO_MANY)])
                await scene.all_told()
    found = await scene.pods()
    bound = [one for one in found if one["spec"].get("nodeName")]
    late = {one["spec"]["nodeName"] for one in bound if one["metadata"]["name"][0] in "ql"}
    decided = {one.id for one in transport.events if one.type == SchedulingPassed.wire_type}
    settled = [BindSettled.read(e) for e in transport.events if e.type == BindSettled.wire_type]

    print(f"{len(bound)} of {len(found)} bound, {cluster.tried} binds, {cluster.wrong} went wrong")
    assert [] == binding.overcommitted(await scene.nodes(), found)
    assert 2 * EACH < len(bound) < len(found) == 2 * EACH + TOO_MANY
    assert late & set(cordoned) == set()
    assert {one["metadata"]["annotations"]["bursar.io/decision"] for one in bound} <= decided
    assert (left, cluster.replaced) == ([], set())
    assert {"gone", "refused"} <= {one.result for fact in settled for one in fact.failed}


async def test_nodes_that_are_lost_between_a_choice_and_its_bind_get_no_more_than_they_have(plane):
    """The API server does not look whether a node exists. Half of them come back at once, with their pods by their name."""
    names = binding.schedulable(plane, 12, cpu="6", memory="24Gi")
    scene, transport = Scene(plane), MemoryTransport()
    async with binding.watched(plane, transport, Meddled) as cluster:
        lost = names[:6]
        cluster.doomed, scene.returning = set(lost), set(lost[3:])
        cluster.remove = scene.remove
        labels = ("bind.before_post", "bind.after_post")
        async with binding.killed_again_and_again(
            lambda: binding.scheduling(transport, cluster), labels
        ) as left:
            await scene.create(binding.pods(40, 3))
            await scene.all_told()
            await scene.cordon(names[6])
            await scene.create(binding.pods(40, 4, "q"))
            await scene.all_told()
            await scene.all_used(scene.returning)
    found, gone = await scene.pods(), set(lost[:3])
    bound = [one for one in found if one["spec"].get("nodeName")]
    ended = {
        fact.name: event.sequence
        for event in transport.events
        if event.type == NodeVanished.wire_type and (fact := NodeVanished.read(event)).name in gone
    }

    print(f"{len(bound)} of {len(found)} bound, {cluster.tried} binds, {cluster.wrong} went wrong")
    assert (left, cluster.doomed, set(ended)) == ([], set(), gone)
    assert [] == binding.overcommitted(await scene.nodes(), found)
    assert scene.returning < {one["spec"]["nodeName"] for one in bound}
    for fact in (
        SchedulingPassed.read(e) for e in transport.events if e.type == SchedulingPassed.wire_type
    ):
        chosen = {fact.nodes[one.node] for one in fact.pods if one.node >= 0}
        assert not [name for name in chosen & gone if ended[name] <= fact.after]


async def test_a_pod_that_fits_nowhere_is_told_so_as_kube_scheduler_would(plane):
    binding.schedulable(plane, 3, cpu="4", memory="16Gi")
    scene, transport = Scene(plane), MemoryTransport()
    async with (
        binding.watched(plane, transport) as cluster,
        binding.scheduling(transport, cluster) as runner,
    ):
        async with asyncio.timeout(30):
            # Who is tried before a node was seen is told that there is none, for a minute.
            while len(runner.replica.cluster_state.nodes) < 3:
                await asyncio.sleep(0.05)
        await scene.create([binding.pod("large", "5", 1), binding.pod("small", "1", 1)])
        async with asyncio.timeout(30):
            while not (found := await conditions(scene, "large")):
                await asyncio.sleep(0.1)
        told = "0/3 nodes are available: 3 Insufficient cpu."
        assert {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
        }.items() <= found.items()
        assert found["message"].startswith(told)
        async with asyncio.timeout(30):
            while len(items := await told_of_pods(scene)) < 2:
                await asyncio.sleep(0.1)
    by_reason = {one["reason"]: one for one in items}
    assert by_reason["FailedScheduling"]["note"].startswith(told)
    assert by_reason["Scheduled"]["note"].startswith("Successfully assigned default/small to node-")
    assert {one["reportingController"] for one in items} == {"bursar"}


async def told_of_pods(scene):
    """Events about pods; the API server has some about itself."""
    events = (await scene.request("GET", "/apis/events.k8s.io/v1/namespaces/default/events"))[
        "items"
    ]
    return [one for one in events if one["regarding"]["kind"] == "Pod"]


async def conditions(scene, name):
    """The pod's condition PodScheduled; {} where it has none."""
    pod = await scene.request("GET", f"{PODS_PATH}/{name}")
    found = pod["status"].get("conditions") or ()
    return next((one for one in found if one["type"] == "PodScheduled"), {})
