"""From a pass to a bound pod: the wiring of the scheduler's effects, on an API server in memory."""

import asyncio
import itertools
import random
from collections import Counter

import msgspec
import pytest

from bus.clock import SECOND_US
from bus.errors import ConflictError, NotFoundError, RequestRefusedError, UnknownRightsError
from bus.events.decisions import BindSettled, EffectSettled, SchedulingPassed
from bus.memory import MemoryTransport
from deploy.runtime.reactors import acting
from reactors.scheduling import NAME
from reactors.scheduling.reactor import reactor
from reactors.scheduling.settings import SchedulingPolicy
from tests import factories as f
from tests.acceptance.binding import Meddled, killed_again_and_again
from tests.scenario import Clock

pytestmark = pytest.mark.simulated

OURS = msgspec.Raw(b'{"schedulerName":"bursar"}')
GATED = msgspec.Raw(b'{"schedulerName":"bursar","schedulingGates":["x"]}')
SMALL = {"cpu": "4", "memory": "8Gi", "pods": "110"}
NO_RIGHT = UnknownRightsError(message='User "u" cannot create resource "pods/binding"')


class ApiServer:
    """Pods that are bound are observed on their nodes. Errors by pod come first."""

    def __init__(self, world):
        self.world, self.nodes, self.errors, self.conditions, self.events = world, {}, {}, {}, []
        self.evicted, self.nominated = [], []
        self.annotations, self.watch, self.dice = {}, set(), random.Random(1)

    async def bind(self, namespace, pod, *, uid, node, annotations):
        if self.errors.get(pod):
            raise self.errors[pod].pop(0)
        await asyncio.sleep(self.dice.random() / 100)
        if pod in self.nodes:
            raise ConflictError(message=f"pod {pod} is already assigned")
        self.nodes[pod], self.annotations[pod] = node, annotations
        self.watch.add(asyncio.create_task(self._observed(pod, node)))
        await asyncio.sleep(self.dice.random() / 100)

    async def _observed(self, pod, node):
        await asyncio.sleep(self.dice.random() / 20)
        await self.world.pod(pod, node, cpu=self.world.cpu[pod])

    async def get(self, path):
        name = path.rpartition("/")[2]
        if name not in self.world.cpu:
            raise NotFoundError()
        metadata = {"name": name, "namespace": "ns", "uid": name, "resourceVersion": "1"}
        return {"metadata": metadata, "spec": {"nodeName": self.nodes.get(name, "")}}

    async def apply(self, path, body):
        self.nominated.append(body["status"].get("nominatedNodeName", ""))
        self.conditions[path.split("/")[-2]] = body["status"]["conditions"][0]["message"]

    async def evict(self, namespace, pod, *, uid):
        self.evicted.append(pod)
        return {}

    async def create(self, path, body):
        self.events.append((body["reason"], body["regarding"]["name"]))


class World:
    """A cluster whose scheduler acts."""

    def __init__(self):
        self.transport, self.clock, self.cpu = MemoryTransport(), Clock(), {}
        self.server, self._versions = ApiServer(self), itertools.count(1)

    async def node(self, name, **fields):
        fields = {"allocatable": SMALL, "uid": f"uid-{name}"} | fields
        await self._say(f.node_observed(name, next(self._versions), self._at(), **fields))

    async def pod(self, name, node=None, **fields):
        fields = {"constraints": OURS, "cpu": "1", "name": name} | fields
        self.cpu[name] = fields["cpu"]
        await self._say(f.pod_observed(name, next(self._versions), self._at(), node=node, **fields))

    def acting(self, mode="on", **policy):
        wanted = {NAME: (mode, SchedulingPolicy(**policy))}
        given = {"name": f.CLUSTER, "clock": self.clock, "reactors": (reactor,)}
        return acting(self.transport, self.server, wanted, **given)

    async def passes(self, seconds):
        """Time, for the program and the history."""
        for _ in range(seconds):
            self.clock.after(1)
            await asyncio.sleep(1)

    async def settle(self):
        """Until all are bound, for a minute at most; who is not."""
        for _ in range(60):
            await self.passes(1)
            if not (left := self.cpu.keys() - self.server.nodes.keys()):
                break
        return left

    def facts(self, kind):
        return [kind.read(e) for e in self.transport.events if e.type == kind.wire_type]

    def _at(self):
        return (self.clock.us - f.START_US) / SECOND_US

    async def _say(self, event):
        await self.transport.publish([event])


async def test_waiting_pods_are_bound_with_the_id_of_their_pass_and_told_of():
    world = World()
    async with world.acting():
        await world.node("a")
        for name in ("p", "q"):
            await world.pod(name)
        await world.passes(3)
        events = [e for e in world.transport.events if e.type == SchedulingPassed.wire_type]

    assert {"p": "a", "q": "a"} == world.server.nodes
    assert {one["bursar.io/decision"] for one in world.server.annotations.values()} <= {
        event.id for event in events
    }
    assert [("Scheduled", "p"), ("Scheduled", "q")] == sorted(world.server.events)
    assert [] == world.facts(BindSettled)


async def test_who_fits_nowhere_is_told_and_who_has_gates_is_not():
    world = World()
    async with world.acting():
        await world.node("a")
        await world.pod("large", cpu="5")
        await world.pod("gated", constraints=GATED)
        await world.passes(3)

    (told,) = world.server.conditions.items()
    assert "large" == told[0] and told[1].startswith("0/1 nodes are available: 1 Insufficient cpu")
    assert [("FailedScheduling", "large")] == world.server.events


async def test_a_refused_pod_gives_its_room_back_and_is_tried_again():
    world = World()
    refused = RequestRefusedError(status=422, message="a policy refuses")
    world.server.errors = {"p": [refused]}
    async with world.acting():
        await world.node("a")
        await world.pod("p")
        await world.passes(45)

    (settled,) = world.facts(BindSettled)
    (failed,) = settled.failed
    assert (failed.uid, failed.result, failed.message) == ("p", "refused", "a policy refuses")
    assert {"p": "a"} == world.server.nodes


async def test_a_missing_right_is_a_trouble_and_no_event():
    world = World()
    world.server.errors = {"p": [NO_RIGHT]}
    async with world.acting() as runner:
        await world.node("a")
        await world.pod("p")
        await world.passes(5)
        (sentence,) = runner.troubles["scheduling"]()
        await world.passes(40)

        assert 'cannot create resource "pods/binding"' in sentence
        assert ({"p": "a"}, []) == (world.server.nodes, list(runner.troubles["scheduling"]()))
    assert [] == world.facts(BindSettled)


@pytest.mark.parametrize("mode", ["shadow", "off"])
async def test_nothing_is_written_unless_it_is_on(mode):
    world = World()
    async with world.acting(mode):
        await world.node("a")
        await world.pod("p")
        await world.pod("large", cpu="5")
        await world.passes(5)

    assert ({}, {}, []) == (world.server.nodes, world.server.conditions, world.server.events)


async def test_an_idle_cluster_has_no_event_but_the_clocks():
    world = World()
    async with world.acting():
        await world.node("a")
        await world.pod("p")
        await world.passes(10)
        before = len(world.transport.events)
        await world.passes(100)

    more = {event.type for event in world.transport.events[before:]}
    assert {"clock.ticked"} == more


@pytest.mark.parametrize("seed", range(2))
async def test_no_node_is_given_more_than_it_has_by_two_processes_of_which_one_dies_everywhere(
    seed,
):
    """With refusals, lost answers and cordons; and who waits in the end fits nowhere."""
    world, dice = World(), random.Random(seed)
    server, room = world.server, {"cpu": "6", "memory": "800Gi", "pods": "110"}
    server.dice, world.server = dice, Meddled(server)
    nodes = [f"n{n}" for n in range(20)]
    async with killed_again_and_again(world.acting) as left:
        for name in nodes:
            await world.node(name, allocatable=room)
        for n in range(40):
            await world.pod(f"p{n}", cpu=dice.choice(("0.25", "0.5", "1", "2")))
        first = await world.settle()
        for name in nodes[:4]:
            await world.node(name, allocatable=room, unschedulable=True)
        async with world.acting():
            await world.passes(1)
            for n in range(60):
                await world.pod(f"q{n}", cpu="2")
            waits = await world.settle()
    used = Counter()
    for pod, node in server.nodes.items():
        used[node] += float(world.cpu[pod])
    late = {node for pod, node in server.nodes.items() if pod.startswith("q")}

    assert (set(), set()) == (first, late & set(nodes[:4]))
    assert set(left) <= {"bind.before_settle"}
    assert max(used.values()) <= 6 and waits
    assert all(6 - used[name] < 2 for name in nodes[4:])


async def test_who_is_less_important_is_evicted_and_the_nominated_node_is_written():
    world = World()
    async with world.acting(preemption="on"):
        await world.node("a")
        await world.pod("low", "a", cpu="4")
        await world.pod("p", cpu="3", priority=5)
        await world.passes(5)
        await world._say(f.pod_vanished("low", next(world._versions), world._at()))
        await world.passes(15)

    assert (world.server.evicted, world.server.nodes) == (["low"], {"p": "a"})
    assert "a" in world.server.nominated
    assert [one.result for one in world.facts(EffectSettled)] == ["done"]
