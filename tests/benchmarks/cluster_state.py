"""The state of the cluster in memory: how much it takes, what a look-up costs, and what folding an event costs.

    python -m tests.benchmarks.cluster_state [--pods 100000] [--workloads 20000] [--nodes 5000] [--rounds 5] [-o json]

Every pod and workload is observed twice, pods as they are made and as they run, with the labels that a controller writes.
*memory* is what the process grew by from the first event to the last. *look-up* asks the index for the pods of a node, of a
workload and of a namespace, and for a pod by its name. *state* folds events of pods that are known already, *replica* folds
the same with every reactor beside it; both decode the events. *one more* is the cost of a further copy that takes the same
events in the same process, less that of one state alone: a second state of the cluster, as admission has one beside that of the
reactors; the state of admission and of the queues beside a state of the cluster, as evictions have them; and the state of
admission with charges, as the scheduler's plugin Quota has it.
"""

from __future__ import annotations

import argparse
import gc
import random
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from bus.amounts import ContainerResources, PodResources
from bus.envelope import Event
from bus.events import VOCABULARY
from bus.events.nodes import NodeObserved
from bus.events.pods import Owner, PodObserved, encoded_resources
from bus.events.vocabulary import read
from bus.events.workloads import WorkloadObserved
from projections.cluster import ClusterState
from projections.quota_trees.forest import QuotaTrees
from reactors.admission.state.state import AdmissionState
from reactors.catalogue import REACTORS
from reactors.engine.replica import Replica
from reactors.queue.state import QueueState
from tests.benchmarks import measure
from tests.benchmarks.measure import Report

NAMESPACES = 200
LOOKUPS = 50_000
FOLDED = 50_000
MIB = 2**20
SECOND = "the state of the cluster"
WITHOUT_CHARGES = "the states of admission and queues, without charges"
WITH_CHARGES = "the state of admission, with charges"
_RESOURCES = [
    encoded_resources(
        PodResources(containers=(ContainerResources(requests={"cpu": str(n), "memory": "8Gi"}),))
    )
    for n in range(1, 9)
]


class Cluster:
    """Facts about a cluster of this size, made as they are asked for."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._random = random.Random(7)
        self._version = 0
        self.nodes = [f"node-{n:05}" for n in range(args.nodes)]
        self.workloads = [self._uid() for _ in range(args.workloads)]
        self.pods = [self._uid() for _ in range(args.pods)]

    def _uid(self) -> str:
        return str(uuid.UUID(int=self._random.getrandbits(128), version=4))

    def events(self) -> Iterator[Event]:
        """Everything, twice over."""
        for node in self.nodes:
            yield self._node(node)
        for number in range(2 * len(self.workloads)):
            yield self._workload(number % len(self.workloads))
        for number in range(2 * len(self.pods)):
            yield self.pod(number % len(self.pods), is_bound=number >= len(self.pods))

    def _next(self) -> str:
        self._version += 1
        return str(self._version)

    def _node(self, name: str) -> Event:
        fact = NodeObserved(
            uid=self._uid(), name=name, resource_version=self._next(),
            allocatable={"cpu": "128", "memory": "1Ti", "nvidia.com/gpu": "8", "pods": "250"},
            labels={"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": "a"},
        )  # fmt: skip
        return self._event(fact, fact.uid)

    def _workload(self, number: int) -> Event:
        uid, name = self.workloads[number], f"train-{number:06}"
        demand = {"requests.cpu": 40_000, "limits.cpu": 40_000, "requests.memory": 40 * 2**30}
        fact = WorkloadObserved(
            uid=uid, kind="Job", namespace=f"team-{number % NAMESPACES}", name=name,
            resource_version=self._next(), created="2026-10-26T08:00:00Z", demand=demand, pods=5,
            labels={"app": name, "biz.group.resource.quota": f"quota-{number % 50}"},
        )  # fmt: skip
        return self._event(fact, uid)

    def pod(self, number: int, *, is_bound: bool) -> Event:
        """A pod of one of the workloads, in a new version."""
        at = number % len(self.workloads)
        owner, name = self.workloads[at], f"train-{at:06}"
        fact = PodObserved(
            uid=self.pods[number], namespace=f"team-{at % NAMESPACES}", name=f"{name}-{number}",
            resource_version=self._next(), created="2026-10-26T08:00:00Z",
            scheduled="2026-10-26T08:00:01Z" if is_bound else None,
            phase="Running" if is_bound else "Pending",
            node=self.nodes[number % len(self.nodes)] if is_bound else None,
            owner=Owner("Job", name, owner), team=f"team-{at % NAMESPACES}",
            labels={
                "app": name, "job-name": name, "batch.kubernetes.io/job-name": name,
                "controller-uid": owner, "batch.kubernetes.io/controller-uid": owner,
                "batch.kubernetes.io/job-completion-index": str(number % 5),
            },
            resources=_RESOURCES[at % len(_RESOURCES)], limits={"cpu": 8_000, "memory": 2**33},
        )  # fmt: skip
        return self._event(fact, fact.uid)

    def _event(self, fact: PodObserved | WorkloadObserved | NodeObserved, key: str) -> Event:
        return fact.event(cluster="c", key=key, id="", source="", time_us=self._version * 1_000)


def resident() -> int:
    """Bytes of this process in memory."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * 4096


def looked_up(state: ClusterState, cluster: Cluster) -> float:
    """Microseconds of one look-up."""
    index, picks = state.index, random.Random(1).choices(cluster.pods, k=LOOKUPS)
    pods = [state.pods[uid] for uid in picks]
    nodes = [pod.node for pod in pods]
    owners = [pod.owner.uid for pod in pods if pod.owner is not None]
    namespaces = [pod.namespace for pod in pods]
    names = [(pod.kind, pod.namespace, pod.name) for pod in pods]
    began = time.process_time()
    found = sum(bool(index.on_node[node]) for node in nodes)
    found += sum(bool(index.owned[owner]) for owner in owners)
    found += sum(bool(index.in_namespace[namespace]) for namespace in namespaces)
    found += sum(bool(index.named(*name)) for name in names)
    spent = time.process_time() - began
    assert found == 4 * LOOKUPS
    return spent * 1e6 / found


def folded(cluster: Cluster, state: ClusterState | None, replica: Replica | None) -> float:
    """CPU microseconds of one event of a pod that is known already."""
    events = [cluster.pod(number, is_bound=True) for number in range(FOLDED)]
    began = time.process_time()
    for event in events:
        if state is not None:
            state.apply(read(event, VOCABULARY), event)
        if replica is not None:
            replica.apply(event)
    return (time.process_time() - began) * 1e6 / FOLDED


def _copies(name: str) -> list[Callable[[Event], None]]:
    """A state of the cluster, and the copy ``name`` beside it: the functions that fold an event, in their order."""
    state, trees = ClusterState(), QuotaTrees()
    found: list[Callable[[Event], None]] = [_folds(state)]
    if name == SECOND:
        found.append(_folds(ClusterState()))
    elif name == WITHOUT_CHARGES:
        admission = AdmissionState("c", state=state)
        found += [admission.apply, QueueState(admission).apply]
    elif name == WITH_CHARGES:
        found += [_folds(trees), AdmissionState("c", trees, state=state).apply]
    return found


def _folds(state: ClusterState | QuotaTrees) -> Callable[[Event], None]:
    return lambda event: state.apply(read(event, VOCABULARY), event)


def copied(args: argparse.Namespace, name: str) -> tuple[float, float]:
    """MiB of a state of the cluster with the copy ``name``, and their CPU microseconds for an event, decoding included."""
    cluster, folds = Cluster(args), _copies(name)
    before = resident()
    for event in cluster.events():
        for fold in folds:
            fold(event)
    taken = (resident() - before) / MIB
    events = [cluster.pod(number % args.pods, is_bound=True) for number in range(FOLDED)]
    began = time.process_time()
    for event in events:
        for fold in folds:
            fold(event)
    return taken, (time.process_time() - began) * 1e6 / FOLDED


def one_more(args: argparse.Namespace) -> dict[str, tuple[float, float]]:
    """The cost of each further copy, measured by processes that begin with nothing: MiB, and CPU microseconds for an event."""
    found = {}
    for name in ("", SECOND, WITHOUT_CHARGES, WITH_CHARGES):
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            found[name] = pool.submit(copied, args, name).result()
    mib, us = found.pop("")
    return {name: (one[0] - mib, one[1] - us) for name, one in found.items()}


def run(args: argparse.Namespace) -> Report:
    """Fold a cluster once, then ask it again and again."""
    # What the first events load and cache is no part of what the state takes.
    for event in Cluster(argparse.Namespace(pods=2, workloads=1, nodes=1)).events():
        read(event, VOCABULARY)
    more = one_more(args)
    cluster, state = Cluster(args), ClusterState()
    before = resident()
    for event in cluster.events():
        state.apply(read(event, VOCABULARY), event)
    taken = (resident() - before) / MIB
    rounds = range(args.rounds)
    lookups = [looked_up(state, cluster) for _ in rounds]
    plain = [folded(cluster, state, None) for _ in rounds]
    replica = Replica(REACTORS, "c")
    for event in cluster.events():
        replica.apply(event)
    whole = [folded(cluster, None, replica) for _ in rounds]
    goals = [
        measure.verdict("memory, MiB", [taken], "<=", 400),
        measure.verdict("look-up, us", lookups, "<=", 1),
    ]
    notes = [
        f"{len(state.pods):,} pods, {len(state.workloads):,} workloads, {len(state.nodes):,} nodes",
        f"CPU of a folded event: state {sorted(plain)[len(plain) // 2]:.1f} us, "
        f"replica {sorted(whole)[len(whole) // 2]:.1f} us",
        *(
            f"one more, {name}: {mib:.0f} MiB and {us:.1f} us of CPU an event"
            for name, (mib, us) in more.items()
        ),
    ]
    return {"rounds": args.rounds, "per_event": {}, "goals": goals, "notes": notes}


if __name__ == "__main__":
    raise SystemExit(
        measure.main(run, "The state of the cluster.", pods=100_000, workloads=20_000, nodes=5_000)
    )
