"""What is outstanding, as the binder is told of it, and pods that are each bound once."""

import asyncio
import contextlib
from types import SimpleNamespace

import pytest

from bus.errors import ClusterUnavailableError, ConflictError, NotFoundError
from bus.waiting import Moves
from projections.cluster.volumes import Pvc
from reactors.scheduling.effectors.binder import Binder
from reactors.scheduling.framework.bind import Placement
from reactors.scheduling.framework.bind_cycle import Known
from reactors.scheduling.framework.bind_plugins import BindPlugins
from reactors.scheduling.plugins.default_binder import DefaultBinder
from reactors.scheduling.plugins.volumes.volume_binding import VolumeBinding

#: Its sleeps take no time in the tests that it is for.
pytestmark = pytest.mark.simulated


class Cluster:
    """Pods by name, each bound once and for ever; errors by name come first, a lost answer after it was done."""

    def __init__(self):
        self.nodes, self.errors, self.lost, self.asked = {}, {}, set(), []
        self.at_once = self.most_at_once = 0
        #: By pod: its claims that are not bound.
        self.unbound = {}
        #: So long a bind takes.
        self.seconds = 0.01

    async def bind(self, namespace, pod, *, uid, node, annotations):
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(self.seconds)
        self.at_once -= 1
        self.asked.append((pod, node))
        if self.errors.get(pod):
            raise self.errors[pod].pop(0)
        if pod in self.nodes:
            raise ConflictError(message=f"pod {pod} is already assigned")
        self.nodes[pod] = node
        if pod in self.lost:
            self.lost.discard(pod)
            raise ClusterUnavailableError(reason="ServerDisconnectedError")

    async def merge(self, path, body):
        """Name a node on a claim; its pod has the same name."""
        name, metadata = path.rpartition("/")[2], body["metadata"]
        self.asked.append((path, metadata))
        if self.errors.get(name):
            raise self.errors[name].pop(0)
        [claim] = self.unbound[name]
        if metadata["resourceVersion"] != claim.version:
            raise ConflictError()
        [node] = metadata["annotations"].values()
        self.select(name, node)
        return {"metadata": {"resourceVersion": self.unbound[name][0].version}}

    def select(self, name, node):
        """Somebody writes a claim."""
        version = int(self.unbound[name][0].version) + 1 if name in self.unbound else 1
        self.unbound[name] = [
            Pvc(
                f"claim-{name}", "ns", name, str(version), 0, "", False, False, False, "fast", (), 0, False, False,
                node, "",
            )
        ]  # fmt: skip

    async def get(self, path):
        name = path.rpartition("/")[2]
        if name == "gone":
            raise NotFoundError()
        return {"metadata": {"uid": name}, "spec": {"nodeName": self.nodes.get(name, "")}}


class World:
    """Placements by pod, and what was said of them."""

    def __init__(self, *names):
        self.cluster, self.wanted, self.settled, self.told = Cluster(), {}, [], []
        self.say_errors, self.against, self.moves = [], {}, 0
        self.looks, self._waits = 0, Moves()
        self.plugins = [VolumeBinding(), DefaultBinder()]
        for name in names:
            self.place(name)

    def place(self, name, node="n1", decision="d1"):
        self.moves += 1
        self._waits.wake()
        self.wanted[name] = Placement("ns", name, name, node, decision)

    @property
    def position(self):
        return self.moves

    async def moved(self, seconds):
        self.looks += 1
        await self._waits.next(seconds)

    def decisions(self):
        return [(one.uid, one.decision) for one in self.wanted.values()]

    def overtaken(self, placement):
        return self.against.get(placement.uid, "")

    def claims(self, placement):
        return self.cluster.unbound.get(placement.uid, [])

    def binding(self, placement):
        volumes = SimpleNamespace(unbound=lambda _: self.claims(placement))
        known = Known(None, SimpleNamespace(volumes=volumes), lambda: {"example.org/part": "1"})
        return BindPlugins(self.plugins), known

    def placement(self, uid):
        return self.wanted.get(uid)

    async def settle(self, found):
        if self.say_errors:
            raise self.say_errors.pop(0)
        for placement, outcome in found:
            self.settled.append((placement.name, outcome.outcome))
            self.wanted.pop(placement.uid, None)
            self.moves += 1

    @contextlib.asynccontextmanager
    async def running(self):
        self.binder = Binder(
            self.cluster, self, self.settle, lambda one: self.told.append(one.name)
        )
        task = asyncio.create_task(self.binder.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def run(self, seconds=1.0):
        async with self.running():
            await asyncio.sleep(seconds)
