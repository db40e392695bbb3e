"""Pods that a server binds once, which the history is told, and the process that binds them."""

import asyncio
from functools import partial

import msgspec
import pytest

from bus.errors import ClusterUnavailableError, ConflictError, RequestRefusedError
from bus.waiting import Moves
from reactors.scheduling.effectors.binder import Binder
from reactors.scheduling.effects import PlacementSource, settle

#: Its sleeps take no time in the tests that it is for.
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
        placements = PlacementSource(cluster.runner.replica, self.moves)
        say = partial(settle, cluster.transport, cluster.clock, cluster.cluster)
        binding = asyncio.create_task(Binder(self.server, placements, say, lambda one: None).run())
        for _ in range(seconds):
            await asyncio.sleep(1)
            await cluster.tick(1)
            self.server.look()
            self.moves.wake()
        binding.cancel()
        await asyncio.gather(binding, return_exceptions=True)
