"""A gang is bound by the binder itself, while binds are refused, nodes go and the process is killed."""

import asyncio
from functools import partial
from random import Random

import msgspec
import pytest

from bus import crashpoints
from bus.errors import ClusterUnavailableError, ConflictError, RequestRefusedError
from bus.waiting import Moves
from reactors.scheduling.effectors.binder import Binder
from reactors.scheduling.effects import Placements, settle
from tests.reactors.scheduling.ganging import Ganging
from tests.reactors.scheduling.scene import Killed

pytestmark = pytest.mark.simulated


class Server:
    """Pods, each bound once and for ever, which the history is told; some binds are refused or lost."""

    def __init__(self, cluster, random):
        self.cluster, self.random = cluster, random
        self.nodes, self.troubles = {}, 6
        #: The pods of the gang; what was bound while others of it had no node; binds on their way; whether one
        #: failed since the first one was bound or on its way.
        self.gang, self.wrong, self.flying, self.has_failed = set(), [], 0, False

    def look(self):
        """What is left of a gang in part is on its way, unless a bind failed, or a node went, after the first of them."""
        left = self.gang - self.nodes.keys()
        if self.nodes and left - self.cluster.outstanding().keys() and not self.has_failed:
            self.wrong.append(("half bound at rest", sorted(self.nodes)))

    async def bind(self, namespace, pod, *, uid, node, annotations):
        if not self.gang <= self.nodes.keys() | self.cluster.outstanding().keys():
            self.wrong.append(("bound though others have no node", pod))
        self.flying += 1
        try:
            await asyncio.sleep(0.01)
        finally:
            self.flying -= 1
        trouble = self.random.randrange(5) if self.troubles else 9
        self.troubles -= trouble < 2
        if trouble == 0:
            self.has_failed |= bool(self.nodes or self.flying)
            raise RequestRefusedError(status=422, message="refused")
        if pod in self.nodes:
            raise ConflictError(message=f"pod {pod} is already assigned")
        known = self.cluster.runner.replica.cluster_state.pods[uid]
        self.nodes[pod] = node
        raw = msgspec.Raw(msgspec.json.encode(known.constraints))
        await self.cluster.publish(self.cluster.pod(uid, node, constraints=raw, cpu="2"))
        if trouble == 1:
            raise ClusterUnavailableError(reason="ServerDisconnectedError")

    async def get(self, path):
        name = path.rpartition("/")[2]
        return {"metadata": {"uid": name}, "spec": {"nodeName": self.nodes.get(name, "")}}


class Process:
    """The binder of one process, which may end at a crash point, and a history that goes on."""

    def __init__(self, cluster, server):
        self.cluster, self.server, self.moves = cluster, server, Moves()

    async def run(self, seconds):
        cluster = self.cluster
        placements = Placements(cluster.runner.replica, self.moves)
        say = partial(settle, cluster.transport, cluster.clock, cluster.cluster)
        binding = asyncio.create_task(Binder(self.server, placements, say, lambda one: None).run())
        for _ in range(seconds):
            await asyncio.sleep(1)
            await cluster.tick(1)
            self.server.look()
            self.moves.wake()
        binding.cancel()
        await asyncio.gather(binding, return_exceptions=True)


@pytest.mark.parametrize("label", ["", "bind.before_post", "bind.after_post", "bind.before_settle"])
@pytest.mark.parametrize("seed", range(4))
async def test_in_the_end_all_of_a_gang_is_bound_whatever_happened_between(seed, label):
    cluster, random, left = Ganging(), Random(seed), [1]
    await cluster.begin(nodes=4)
    server = Server(cluster, random)
    server.gang = {f"g{number}" for number in range(5)}
    await cluster.say(*cluster.light(5))

    def hook(reached):
        if reached == label and left[0]:
            left[0] -= 1
            raise Killed

    crashpoints.install(hook)
    try:
        await Process(cluster, server).run(random.randint(1, 30))
        server.has_failed |= bool(server.nodes)
        await cluster.say(cluster.node_gone("n3"), cluster.node("n9"))
        cluster.runner = cluster.new_runner(cluster.reactor)
        await cluster.read()
        # Whichever of these was killed, another one follows.
        for _ in range(2):
            await Process(cluster, server).run(300)
    finally:
        crashpoints.install(None)

    columns = cluster.state.scheduler.columns
    assert server.wrong == []
    assert len(server.nodes) == 5 and cluster.outstanding() == {}
    assert (columns.free[: len(columns.names)] >= 0).all()
    cluster.same()


async def test_no_pod_of_a_gang_is_bound_where_a_node_is_lost_before_the_first_bind():
    cluster, random = Ganging(), Random(1)
    await cluster.begin(nodes=3)
    server = Server(cluster, random)
    server.troubles = 0
    server.gang = {f"g{number}" for number in range(6)}
    await cluster.say(*cluster.light(6))
    await cluster.say(cluster.node_gone("n0"))
    await Process(cluster, server).run(300)
    before = dict(server.nodes)
    await cluster.say(cluster.node("n7"))
    await Process(cluster, server).run(60)

    assert server.wrong == []
    assert (before, len(server.nodes)) == ({}, 6)
