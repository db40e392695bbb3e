"""ADAPTER: plays the arrivals of a trace through a bus and a ledger of its own, and the scheduling reactor decides.

In one process, as in ``bursar up``: an embedded server that syncs every write, the shared reading of the history, the runner of
the reactors and that of the ledger. Nodes, the policy and each arriving pod are facts; a pass is an event. Each placed pod is
observed on its node, as in a cluster. The measurement ends when the ledger holds all of that.

Source: docs/scheduling.md, "GPU packing"; tests/benchmarks/README.md.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from bus.amounts import ContainerResources, PodResources
from bus.clock import SystemClock
from bus.embedded import EmbeddedServer
from bus.envelope import Event
from bus.events.constraints import PodConstraints
from bus.events.decisions import SchedulingPassed
from bus.events.pods import PodObserved, encoded_resources
from bus.jetstream import JetStream
from bus.sharing import SharedReading
from bus.sources.openb import NAMESPACE, SOURCE
from bus.streams import history
from bus.transport import Transport
from bus.waiting import beside, reached
from deploy.commands.bench_bind import (
    Placement,
    Result,
    Scene,
    demanded,
    nodes_of,
    result_of,
    selecting,
)
from deploy.runtime.ledgers import ledger
from projections.catalogue import MODEL
from projections.engine.folder import Folder
from projections.engine.runner import Runner as LedgerRunner
from reactors.catalogue import REACTORS
from reactors.engine.policies import policy_changed
from reactors.engine.replica import Replica
from reactors.engine.runner import Runner
from reactors.scheduling import NAME
from reactors.scheduling.packing.catalogue import Name
from reactors.scheduling.settings import SchedulingPolicy, SchedulingProfile

#: Pods in one message of the bus's client.
AT_ONCE = 500
#: The weight of the packing policy: the other plugins of the profile decide between equals.
WEIGHT = 1000


class BenchFolder(msgspec.Struct, frozen=True):
    """A folder with a ledger."""

    data: Path

    @property
    def ledger_url(self) -> str:
        """A file in the folder."""
        return f"sqlite:///{self.data / 'ledger.db'}"


async def replayed(scene: Scene, policy: Name, arrived: Callable[[int], None]) -> Result:
    """Place every pod of an order. ``arrived`` is told how many were tried. ``seconds`` are of the clock on the wall."""
    with tempfile.TemporaryDirectory(prefix="bursar-bench-") as folder:
        place = BenchFolder(Path(folder))
        async with EmbeddedServer(place.data) as server:
            jetstream = await JetStream.connect(
                server.url, history(), credentials=server.credentials
            )
            try:
                with ledger(place) as store:
                    transport = SharedReading(jetstream)
                    writer = LedgerRunner(store, Folder(MODEL, store), transport)
                    async with beside(_written(writer)):
                        return await _played(scene, policy, transport, writer, arrived)
            finally:
                await jetstream.close()


async def _written(writer: LedgerRunner) -> None:
    """Write the ledger, for ever."""
    await writer.run()


async def _played(
    scene: Scene,
    policy: Name,
    transport: Transport,
    writer: LedgerRunner,
    arrived: Callable[[int], None],
) -> Result:
    clock = SystemClock()
    pods = Pods(scene, clock)
    await transport.publish(
        [
            *(event for _, event in nodes_of(scene.nodes, clock.now_us())),
            _policy(scene, policy, clock),
        ]
    )
    runner = Runner(Replica(REACTORS, SOURCE), transport, clock, {})
    cluster = BenchCluster(pods, transport, arrived)
    async with beside(runner.follow()), beside(cluster.follow()):
        head = (await transport.head()).last_sequence
        await reached(lambda: writer.checkpoint.sequence, head, "the ledger")
        await runner.reached(head)
        began, began_cpu = time.perf_counter(), time.process_time()
        arrivals = list(pods.arrivals())
        for first in range(0, len(arrivals), AT_ONCE):
            await transport.publish(arrivals[first : first + AT_ONCE])
        await reached(lambda: cluster.passed, len(arrivals), "the passes")
        head = (await transport.head()).last_sequence
        await reached(lambda: writer.checkpoint.sequence, head, "the ledger")
        seconds, cpu = time.perf_counter() - began, time.process_time() - began_cpu
    placements = [cluster.placements.get(uid) for uid in pods.uids]
    return result_of(scene, policy, placements, seconds, cpu)


def _policy(scene: Scene, policy: Name, clock: SystemClock) -> Event:
    own: dict[str, object] = {"policy": policy}
    if policy == "FGD":
        own["typical"] = [msgspec.to_builtins(one) for one in scene.typical]
    profile = SchedulingProfile(
        name=SOURCE, weights={"GpuCards": WEIGHT, "NodeResourcesBalancedAllocation": 0}, fields={"GpuCards": own}
    )  # fmt: skip
    fact = policy_changed(NAME, "on", SchedulingPolicy(profiles=(profile,)), author=SOURCE)
    return fact.event(
        cluster=SOURCE, key=NAME, id=fact.digest, source=SOURCE, time_us=clock.now_us()
    )


class Pods:
    """The pods of an order as facts, by uid; equal ones share their encoding."""

    def __init__(self, scene: Scene, clock: SystemClock) -> None:
        self._clock = clock
        seed = scene.arrivals.seed
        self.uids = [f"{seed}-{number}" for number in range(len(scene.pods))]
        self._pods = dict(zip(self.uids, scene.pods, strict=True))
        self._parts: dict[str, tuple[msgspec.Raw, msgspec.Raw]] = {}

    def arrivals(self) -> Iterator[Event]:
        """Each pod waits; their times give their order."""
        now_us = self._clock.now_us()
        for number, uid in enumerate(self.uids):
            yield self._event(uid, "1", None, now_us + number)

    def bound(self, uid: str, node: str) -> Event:
        """A pod is on its node."""
        return self._event(uid, "2", node, self._clock.now_us())

    def _event(self, uid: str, version: str, node: str | None, time_us: int) -> Event:
        one = self._pods[uid]
        if one.name not in self._parts:
            requests = {name: str(amount) for name, amount in demanded(one).items()}
            requests["cpu"] += "m"
            container = ContainerResources(requests=requests)
            constraints = selecting(one) or PodConstraints()
            constraints = msgspec.structs.replace(constraints, scheduler_name=SOURCE)
            self._parts[one.name] = (
                encoded_resources(PodResources((container,))),
                msgspec.Raw(msgspec.json.encode(constraints, order="sorted")),
            )
        resources, terms = self._parts[one.name]
        fact = PodObserved(
            uid=uid, namespace=NAMESPACE, name=uid, resource_version=version, node=node,
            phase="Running" if node else "Pending", resources=resources, constraints=terms,
        )  # fmt: skip
        return fact.event(
            cluster=SOURCE, key=uid, id=f"{uid}/{version}", source=SOURCE, time_us=time_us
        )


class BenchCluster:
    """Runs the placed pods: each is observed on its node."""

    def __init__(self, pods: Pods, transport: Transport, arrived: Callable[[int], None]) -> None:
        self.placements: dict[str, Placement] = {}
        #: How many pods were tried, and observed where they got a node.
        self.passed = 0
        self._tried: set[str] = set()
        self._pods, self._transport, self._arrived = pods, transport, arrived

    async def follow(self) -> None:
        """Read the history, for ever."""
        async for events in self._transport.read(after=0, linger_seconds=0.0):
            observed: list[Event] = []
            for event in events:
                if event.type == SchedulingPassed.wire_type:
                    observed += self._passed(SchedulingPassed.read(event))
            if observed:
                await self._transport.publish(observed)
            if self.passed != len(self._tried):
                self.passed = len(self._tried)
                self._arrived(self.passed)

    def _passed(self, fact: SchedulingPassed) -> Iterator[Event]:
        for one in fact.pods:
            self._tried.add(one.uid)
            if one.node >= 0:
                node = fact.nodes[one.node]
                self.placements[one.uid] = Placement(node, one.cards)
                yield self._pods.bound(one.uid, node)
