"""How fast the framework places pods: kube-scheduler's plugins on a cluster of 5,000 nodes, in process.

    python -m tests.benchmarks.scheduling [--nodes 5000] [--pods 4000] [--rounds 5] [-o json]

Each pod is chosen a node, and counts there for those that follow. *plain* pods request cores and memory in twelve sizes. *zone*
pods shall lie evenly over zones; *spread* pods have to, and shall lie evenly over nodes; *apart* pods keep away from their own app.
*share* pods request parts of GPUs, in 300 sizes, on 1,000 nodes with eight cards each. *joint* pods request two cards and an RDMA
device at the same PCIe switch, on 1,000 nodes with four switches each.
*nodes* is the CPU of following so many nodes, of which each comes by itself, as at a first list.
*grown* is what the process takes more while five times as many plain pods come and go, once as many have done so before.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

import msgspec

from bus.envelope import Event
from bus.events.constraints import (
    Affinity,
    DeviceTerms,
    LabelSelector,
    PodAffinity,
    PodAffinityTerm,
    PodConstraints,
    Spread,
)
from bus.events.devices import NodeDevice, NodeDevicesObserved
from bus.events.nodes import NodeObserved
from projections.cluster import ClusterState, Pod
from reactors.scheduling.columns.table import Columns
from reactors.scheduling.framework.context import PluginContext
from reactors.scheduling.framework.contract import Cycle
from reactors.scheduling.framework.runner import Framework
from reactors.scheduling.plugins.catalogue import default_profile, profile_of
from tests.benchmarks import measure
from tests.benchmarks.cluster_state import MIB, resident
from tests.benchmarks.measure import Report

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
KINDS = 20
_SIZES = [
    {"requests.cpu": cpu, "requests.memory": mib * MIB}
    for cpu in (100, 250, 500, 1000)
    for mib in (128, 512, 1024)
]
_K = "koordinator.sh/gpu"
_CARDS = {f"{_K}-core": "800", f"{_K}-memory-ratio": "800", f"{_K}-memory": "640Gi"}
_RDMA = "koordinator.sh/rdma"
_TWO = {f"requests.{_K}-core": 200, f"requests.{_K}-memory-ratio": 200}
_JOINT = [{"requests.cpu": 100, f"requests.{_RDMA}": 50} | _TWO]
_SHARES = [
    {"requests.cpu": 100, f"requests.{_K}-core": core, f"requests.{_K}-memory-ratio": ratio}
    for core in range(5, 65, 2)
    for ratio in range(5, 55, 5)
]


def observed(nodes: int, **offered: str) -> Iterator[tuple[NodeObserved, Event]]:
    """Nodes in three zones, as they are said one by one."""
    for number in range(nodes):
        name = f"node-{number:05}"
        fact = NodeObserved(
            uid=name, name=name, resource_version="1", ready=True,
            allocatable={"cpu": "32", "memory": "128Gi", "pods": "110", **offered},
            labels={ZONE: f"z{number % 3}", HOST: name},
        )  # fmt: skip
        yield fact, fact.event(cluster="c", key=name, id="", source="", time_us=0)


def cluster(nodes: int, **offered: str) -> ClusterState:
    """All of them in the state of a cluster."""
    state = ClusterState()
    for fact, event in observed(nodes, **offered):
        state.apply(fact, event)
    return state


def with_devices(nodes: int) -> ClusterState:
    """Each with eight cards and four RDMA devices at four switches, as Koordinator's agent tells it."""
    state = cluster(nodes, **_CARDS, **{_RDMA: "400"})
    cards = {name: str(int(text.removesuffix("Gi")) // 8) + text[3:] for name, text in _CARDS.items()}  # fmt: skip
    gpus = (NodeDevice("gpu", n, f"GPU-{n}", True, cards, n // 4, f"s{n // 2}") for n in range(8))
    nics = (NodeDevice("rdma", n, "", True, {_RDMA: "100"}, n // 2, f"s{n}") for n in range(4))
    devices = (*gpus, *nics)
    for name in list(state.nodes):
        fact = NodeDevicesObserved(uid=f"d-{name}", name=name, resource_version="1", devices=devices)  # fmt: skip
        state.apply(fact, fact.event(cluster="c", key=name, id="", source="", time_us=0))
    return state


def appeared(nodes: int) -> float:
    """CPU seconds of a scheduler's columns that follow nodes which come one by one."""
    state = ClusterState()
    columns, spent = Columns(state), 0.0
    for fact, event in observed(nodes):
        state.apply(fact, event)
        began = time.process_time()
        columns.follow(state.changes(event))
        spent += time.process_time() - began
    return spent


def terms(kind: str, app: str) -> PodConstraints | None:
    """What a pod of a kind demands."""
    same = LabelSelector({"app": app})
    zone = Spread(1, ZONE, "DoNotSchedule", same)
    match kind:
        case "zone":
            zone = msgspec.structs.replace(zone, when_unsatisfiable="ScheduleAnyway")
            return PodConstraints(topology_spread_constraints=(zone,))
        case "spread":
            host = Spread(1, HOST, "ScheduleAnyway", same)
            return PodConstraints(topology_spread_constraints=(zone, host))
        case "apart":
            term = PodAffinityTerm(HOST, same)
            return PodConstraints(affinity=Affinity(pod_anti_affinity=PodAffinity((term,))))
        case "joint":
            return PodConstraints(devices=DeviceTerms(joint=("gpu", "rdma"), same_switch=True))
    return None


def pods(kind: str, count: int) -> Iterator[Pod]:
    """Waiting pods; those of one app are alike."""
    apps = [f"app-{number}" for number in range(KINDS)]
    known = {app: terms(kind, app) for app in apps}
    sizes = {"share": _SHARES, "joint": _JOINT}.get(kind, _SIZES)
    for number in range(count):
        app, uid = apps[number % KINDS], f"{kind}-{number}"
        yield Pod(
            uid, "ns", uid, "1", number, "Pending", "", False, number, 0, "", None, {"app": app}, {},
            sizes[number % len(sizes)], (0, 0), known[app],
        )  # fmt: skip


def placed(framework: Framework, kind: str, count: int) -> float:
    """Pods a CPU second."""
    columns, context = framework.columns, framework.context
    waiting = list(pods(kind, count))
    began = time.process_time()
    for pod in waiting:
        row = framework.choose(Cycle(pod, context), pod.started_us).row
        columns.place(pod, columns.names[row], framework.cards(Cycle(pod, context), row))
    spent = time.process_time() - began
    for pod in waiting:
        columns.take_back(pod.uid)
    return count / spent


def run(args: argparse.Namespace) -> Report:
    """One cluster, emptied after each kind."""
    framework = Framework(
        default_profile("default-scheduler"), PluginContext(Columns(cluster(args.nodes)))
    )
    rates: dict[str, list[float]] = {"plain": [], "zone": [], "spread": [], "apart": []}
    placed(framework, "plain", args.pods // 10)
    for _ in range(args.rounds):
        for kind, found in rates.items():
            found.append(placed(framework, kind, args.pods))
    grown = []
    for _ in range(2):
        before = resident()
        for _ in range(5):
            placed(framework, "plain", args.pods)
        grown.append((resident() - before) / MIB)
    goals = [
        measure.verdict("plain pods a CPU second", rates["plain"], ">=", 2_000),
        measure.verdict("grown by five times the pods, MiB", grown[1:], "<=", 5),
    ]
    shares = Framework(
        profile_of("shares", {"DeviceShare": 5}, {}),
        PluginContext(Columns(cluster(1_000, **_CARDS))),
    )
    shared = [placed(shares, "share", args.pods) for _ in range(args.rounds)]
    goals.append(measure.verdict("pods with shares of GPUs a CPU second", shared, ">=", 300))
    joint = Framework(
        profile_of("joint", {"DeviceShare": 5}, {}), PluginContext(Columns(with_devices(1_000)))
    )
    near = [placed(joint, "joint", args.pods) for _ in range(args.rounds)]
    goals.append(measure.verdict("pods with RDMA devices near their cards a CPU second", near, ">=", 300))  # fmt: skip
    nodes = [appeared(args.nodes) for _ in range(args.rounds)]
    notes = [
        f"{kind}: {sorted(found)[len(found) // 2]:,.0f} pods a CPU second"
        for kind, found in rates.items()
    ]
    notes.append(
        f"nodes: {sorted(nodes)[len(nodes) // 2]:.2f} s of CPU for {args.nodes:,} that come"
    )
    return {"rounds": args.rounds, "per_event": {}, "goals": goals, "notes": notes}


if __name__ == "__main__":
    raise SystemExit(measure.main(run, "Placing pods, in process.", nodes=5_000, pods=4_000))
