"""Every bind decision of a recorded run derived again: seconds of a whole process of `bursar verify --decisions`.

    python -m tests.benchmarks.rederive [--pods 100000] [--nodes 1000] [--rounds 3] [-o json]

The run: nodes of which half have eight cards, and bursts of pods, half of them with cards or a part of one, that a profile with
GPU packing places. A pass is decided after each burst, as the reactor does, and stands behind what is observed meanwhile: pods of
the pass before it on their nodes, and older pods at their end. So many pods have got a node at the end. It is archived once, with
its chain, and a snapshot of what the reactors know after it. Each round verifies all: the chain, every pass byte for byte, the
snapshot. Goal: 100,000 binds under a minute. An answer that is not "all came out the same" ends it.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import tempfile
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import msgspec

from bus.amounts import ContainerResources, PodResources
from bus.clock import SECOND_US
from bus.envelope import Event
from bus.events.clock import LEADER, ClockTicked
from bus.events.constraints import PodConstraints
from bus.events.decisions import SchedulingPassed
from bus.events.nodes import NodeObserved
from bus.events.pods import PodObserved, PodVanished, encoded_resources
from bus.events.vocabulary import Fact
from projections.engine.snapshots import write
from projections.engine.store import Store, engine
from reactors.catalogue import REACTORS
from reactors.engine.policies import policy_changed
from reactors.engine.replica import Replica
from reactors.engine.snapshots import reader_of
from reactors.scheduling import NAME
from reactors.scheduling.settings import SchedulingPolicy, SchedulingProfile
from tests.benchmarks import measure
from tests.benchmarks.measure import Report
from tests.benchmarks.past import answered, archive

#: Of 100,000 binds, on the wall.
GOAL_SECONDS = 60.0
CLUSTER, PROFILE = "benchmark", "bursar"
BEGIN_US = 1_700_000_000 * SECOND_US
#: Pods of a burst, seconds between two bursts, and pods that run at a time.
BURST, PAUSE, LIVE = 40, 1, 8_000
CARDS = "koordinator.sh/gpu-core"
#: What pods request: half of them cards, in hundredths of one.
SHAPES = [
    *({"cpu": cpu, "memory": memory} for cpu in ("100m", "250m", "500m", "1") for memory in ("256Mi", "1Gi")),
    *({"cpu": "500m", "memory": "1Gi", CARDS: cards} for cards in ("10", "20", "30", "50", "70", "100", "100", "200")),
]  # fmt: skip


class Run:
    """A recorded run: its events in order, and what the reactors know after the newest of them."""

    def __init__(self, nodes: int, pods: int) -> None:
        self.replica = Replica(REACTORS, CLUSTER)
        #: Pods that passes gave nodes, and passes.
        self.placed = self.passes = 0
        self._nodes, self._wanted = nodes, pods
        self._now_us = BEGIN_US
        self._terms = msgspec.Raw(
            msgspec.json.encode(PodConstraints(scheduler_name=PROFILE), order="sorted")
        )
        self._resources = [
            encoded_resources(PodResources(containers=(ContainerResources(requests=shape),)))
            for shape in SHAPES
        ]

    def events(self) -> Iterator[Event]:
        """Its events, until enough pods have got a node."""
        yield self._taken(self._policy())
        for number in range(self._nodes):
            yield self._taken(self._event(*_node(number)))
        running: deque[tuple[int, str]] = deque()
        bound: list[tuple[int, str]] = []
        arrived = 0
        while self.placed < self._wanted:
            self._now_us += PAUSE * SECOND_US
            if arrived // BURST % 10 == 0:
                fact = ClockTicked()
                yield self._taken(self._event(fact, LEADER, f"tick/{self._now_us}"))
            for number in range(arrived, arrived + BURST):
                yield self._taken(self._pod(number, "Pending", ""))
            arrived += BURST
            passes = [one for batch in self.replica.concluded().values() for one in batch]
            for one, node in bound:
                running.append((one, node))
                yield self._taken(self._pod(one, "Running", node))
            while len(running) > LIVE:
                yield self._taken(self._pod(*_ended(running.popleft())))
            bound = []
            for event in passes:
                fact = SchedulingPassed.read(event)
                self.passes += 1
                for tried in fact.pods:
                    if tried.node >= 0:
                        self.placed += 1
                        bound.append((int(tried.uid.removeprefix("pod-")), fact.nodes[tried.node]))
                yield self._taken(event)

    def _taken(self, event: Event) -> Event:
        event = msgspec.structs.replace(event, sequence=self.replica.sequence + 1)
        self.replica.apply(event)
        return event

    def _policy(self) -> Event:
        profile = SchedulingProfile(
            name=PROFILE, weights={"GpuCards": 1}, fields={"GpuCards": {"policy": "BestFit"}}
        )
        fact = policy_changed(NAME, "on", SchedulingPolicy(profiles=(profile,)), author=CLUSTER)
        return self._event(fact, NAME, fact.digest)

    def _pod(self, number: int, phase: str, node: str) -> Event:
        uid, version = f"pod-{number}", {"Pending": "1", "Running": "2"}.get(phase, "3")
        kind = PodVanished if phase == "Succeeded" else PodObserved
        fact = kind(
            uid=uid, namespace=f"team-{number % 20}", name=uid, resource_version=version, node=node or None,
            phase=phase, resources=self._resources[number % len(SHAPES)], constraints=self._terms,
        )  # fmt: skip
        return self._event(fact, uid, f"{uid}/{version}")

    def _event(self, fact: Fact, key: str, id: str) -> Event:
        return fact.event(cluster=CLUSTER, key=key, id=id, source="benchmark", time_us=self._now_us)


def _node(number: int) -> tuple[Fact, str, str]:
    name = f"node-{number:04}"
    cards = {CARDS: "800"} if number % 2 else {}
    fact = NodeObserved(
        uid=name, name=name, resource_version="1", ready=True,
        allocatable={"cpu": "64", "memory": "256Gi", "pods": "250", **cards},
    )  # fmt: skip
    return fact, name, name


def _ended(pod: tuple[int, str]) -> tuple[int, str, str]:
    number, node = pod
    return number, "Succeeded", node


def run(args: argparse.Namespace) -> Report:
    """All rounds over one recorded run."""
    own, seconds, used, peak = Run(args.nodes, args.pods), [], [], 0.0
    with tempfile.TemporaryDirectory(prefix="bursar-bench-") as name:
        data = Path(name)
        began = time.process_time()
        archive(data / "ledger.db", args.pods, lambda _: own.events())
        made = time.process_time() - began
        store = Store(engine(f"sqlite:///{data / 'ledger.db'}"))
        saved = msgspec.msgpack.encode(own.replica.saved())
        assert write(store, reader_of(own.replica), own.replica.sequence, saved)
        store.close()
        size = (data / "ledger.db").stat().st_size
        for _ in range(args.rounds):
            began = time.perf_counter()
            cpu, done = answered(data, "verify", "--decisions", "-o", "json")
            seconds.append(time.perf_counter() - began)
            used.append(cpu)
            row = json.loads(done.stdout)
            assert row["ok"], done.stdout
            assert (row["decisions"], row["snapshots"]) == (own.passes, 1), done.stdout
            peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**10
    goals = [measure.verdict("seconds of all of it", seconds, "<=", GOAL_SECONDS)]
    notes = [
        f"{own.placed:,} binds in {own.passes:,} passes, {own.replica.sequence:,} events, {size / 2**20:.0f} MiB",
        f"CPU {statistics.median(used):.1f} s (making the run and its archive: {made:.1f} s); {peak:.0f} MiB at most",
        f"load average at the end {os.getloadavg()[0]:.1f}",
    ]
    return {"rounds": args.rounds, "per_event": {}, "goals": goals, "notes": notes}


if __name__ == "__main__":
    raise SystemExit(measure.main(run, "Decisions derived again.", pods=100_000, nodes=1_000))
