"""Gangs on a real API server: none is left half bound, whatever goes wrong, and none for a moment without a bind that failed."""

import asyncio
import contextlib
import json

import pytest

from bus.errors import ClusterUnavailableError, RequestRefusedError
from bus.events.decisions import BindSettled, SchedulingPassed
from bus.memory import MemoryTransport
from bus.sources.catalogue import POD_GROUPS
from tests.acceptance import binding
from tests.acceptance.binding import NODES_PATH, Scene
from tests.cluster import build
from tests.cluster.plane import GANG_FLAGS, ControlPlane

pytestmark = [pytest.mark.kube, pytest.mark.slow, pytest.mark.timeout(290)]

GROUPS = "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/podgroups"
NOTED = "gang.scheduling.koordinator.sh/"
#: Six gangs of four pods of two cores; at first there is room for four of them.
LIGHT, NATIVE, SIZE = ("a0", "a1", "a2"), ("n0", "n1", "n2"), 4
NODES, LATER = 4, 4


@pytest.fixture
def plane(tmp_path):
    """Nobody else binds or simulates."""
    if reason := build.missing():
        pytest.skip(f"no control plane: {reason}")
    none = {"controllers": False, "scheduler": False, "simulator": False}
    with ControlPlane(tmp_path / "plane", apiserver_flags=GANG_FLAGS, **none) as running:
        yield running


def pods(gang):
    """The pods of a gang."""
    for number in range(SIZE):
        found = binding.pod(f"{gang}-{number}", "2", 1)
        if gang in NATIVE:
            found["spec"]["schedulingGroup"] = {"podGroupName": gang}
        else:
            found["metadata"]["annotations"] = {
                f"{NOTED}name": gang,
                f"{NOTED}min-available": str(SIZE),
            }
        yield found


class Door:
    """The product's adapter. The second bind of two gangs goes wrong: one is refused, one is lost with its node."""

    def __init__(self, door):
        self._door = door
        self.begun, self.wrong, self.delete = set(), {}, None

    def __getattr__(self, name):
        return getattr(self._door, name)

    async def bind(self, namespace, pod, *, node, **fields):
        gang = pod.partition("-")[0]
        own = {one for one in self.begun if one.startswith(gang)}
        kinds = set(self.wrong.values())
        self.begun.add(pod)
        if own and pod not in own and gang not in self.wrong:
            if gang in LIGHT and "refused" not in kinds:
                self.wrong[gang] = "refused"
                raise RequestRefusedError(status=422, message="a policy of the cluster refuses it")
            if gang in NATIVE and "node" not in kinds:
                self.wrong[gang] = "node"
                # A kill of ours does not keep the node.
                await asyncio.shield(self.delete(node))
                await asyncio.sleep(1)
                raise ClusterUnavailableError(reason="ConnectionResetError", delay_seconds=0.1)
        await self._door.bind(namespace, pod, node=node, **fields)


class Watcher:
    """Says of each moment which gangs are half bound though nothing of them is on its way and no bind of them failed."""

    def __init__(self, scene, transport):
        self._scene, self._transport, self._read = scene, transport, 0
        #: By pod: whether the newest that is known of it is that it got a node.
        self._on_its_way, self.failed, self.found, self.looks = {}, set(), [], 0
        self.halves = set()

    async def look(self):
        """Look once."""
        bound = {p["metadata"]["name"] for p in await self._scene.pods() if p["spec"].get("nodeName")}  # fmt: skip
        self._follow()
        self.looks += 1
        for gang in (*LIGHT, *NATIVE):
            own = {f"{gang}-{number}" for number in range(SIZE)}
            left = own - bound
            if left and left != own:
                self.halves.add(gang)
                if gang not in self.failed and not all(map(self._on_its_way.get, left)):
                    self.found.append((gang, sorted(left)))

    def _follow(self):
        events, names = self._transport.events, {}
        for event in events:
            if event.type == SchedulingPassed.wire_type:
                names |= {one.uid: one.name for one in SchedulingPassed.read(event).pods}
        for event in events[self._read :]:
            if event.type == SchedulingPassed.wire_type:
                for one in SchedulingPassed.read(event).pods:
                    self._on_its_way[one.name] = one.node >= 0
            elif event.type == BindSettled.wire_type:
                for one in BindSettled.read(event).failed:
                    self._on_its_way[names[one.uid]] = False
                    self.failed.add(names[one.uid].partition("-")[0])
        self._read = len(events)

    @contextlib.asynccontextmanager
    async def looking(self):
        """Look again and again."""

        async def run():
            while True:
                await self.look()
                await asyncio.sleep(0.1)

        task = asyncio.create_task(run())
        try:
            yield
        finally:
            task.cancel()
            done = await asyncio.gather(task, return_exceptions=True)
            assert isinstance(done[0], asyncio.CancelledError), done


async def test_no_gang_is_left_half_bound_whatever_goes_wrong(plane):
    binding.schedulable(plane, NODES, cpu="8", memory="64Gi")
    scene, transport = Scene(plane), MemoryTransport()
    watcher = Watcher(scene, transport)
    for gang in NATIVE:
        policy = {"schedulingPolicy": {"gang": {"minCount": SIZE}}}
        await scene.request("POST", GROUPS, {"metadata": {"name": gang}, "spec": policy})
    sources = (*binding.SOURCES, *POD_GROUPS)
    async with (
        binding.watched(plane, transport, Door, sources) as cluster,
        binding.killed_again_and_again(lambda: binding.scheduling(transport, cluster)) as labels,
        watcher.looking(),
    ):
        cluster.delete = lambda node: scene.request("DELETE", f"{NODES_PATH}/{node}")
        await scene.create(one for gang in (*LIGHT, *NATIVE) for one in pods(gang))
        await scene.all_told()
        first = [one for one in await scene.pods() if one["spec"].get("nodeName")]
        binding.schedulable(plane, LATER, cpu="8", memory="64Gi", prefix="later")
        await scene.all_bound()
        await watcher.look()
    found = await scene.pods()
    decisions = {gang: decided(found, gang) for gang in (*LIGHT, *NATIVE)}

    print(
        f"{len(first)} bound at first, {watcher.looks} looks, in part for a moment: {sorted(watcher.halves)}"
    )
    print(f"meddled with {cluster.wrong}, a bind failed of {sorted(watcher.failed)}")
    assert watcher.found == []
    assert 0 < len(first) < len(found) == SIZE * len(decisions)
    assert [] == binding.overcommitted(await scene.nodes(), found)
    assert sorted(cluster.wrong.values()) == ["node", "refused"] and labels == []
    # Who had no failure got all of its nodes in one decision. A process that dies before it tells a failure leaves none: what went
    # wrong may not go wrong for the next one.
    assert all(len(ids) == 1 for gang, ids in decisions.items() if gang not in watcher.failed)


def decided(found, gang):
    """The decisions by which the pods of a gang were bound."""
    own = [one["metadata"] for one in found if one["metadata"]["name"].startswith(gang)]
    assert len(own) == SIZE, json.dumps(own)
    return {one["annotations"]["bursar.io/decision"] for one in own}
