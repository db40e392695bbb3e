"""ADAPTER: plays a recorded trace's arrivals on its GPU nodes by a packing policy, and measures allocated cards.

A folder holds the node list, a pod list for each trace and ``arrivals/<trace>-<seed>-pods.txt`` (names in the order of
arrival) with ``-nodes.txt`` (names in the order of ties). A pod without a fitting node is tried once and counts as
arrived; pods never leave.

Source: docs/scheduling.md, "GPU packing".
"""

from __future__ import annotations

import hashlib
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from bus.envelope import Event
from bus.errors import ObservationError
from bus.events.constraints import (
    Affinity,
    NodeSelector,
    NodeSelectorTerm,
    PodConstraints,
    Requirement,
)
from bus.events.constraints import NodeAffinity as AffinityToNodes
from bus.events.nodes import NodeObserved
from bus.sources.openb import GPU_NODES_FILE, SOURCE, TraceNode, TracePod, read_nodes, read_pods
from projections.cluster import ClusterState, Pod
from reactors.scheduling.columns.pod_shapes import typical_kinds
from reactors.scheduling.columns.table import Columns
from reactors.scheduling.framework.context import PluginContext
from reactors.scheduling.framework.contract import Cycle
from reactors.scheduling.framework.profiles import Enabled, Profile
from reactors.scheduling.framework.runner import Framework
from reactors.scheduling.packing.catalogue import Name, Typical
from reactors.scheduling.plugins.gpu_cards import GpuCards
from reactors.scheduling.plugins.nodes.node_affinity import NodeAffinity
from reactors.scheduling.plugins.resources_fit import NodeResourcesFit
from reactors.scheduling.plugins.sorting.priority_sort import PrioritySort

PODS = "openb_pod_list_{trace}.csv"
_ARRIVALS = re.compile(r"(?P<trace>\w+)-(?P<seed>\d+)-pods\.txt")
#: Most pods of a node in the trace, and the resource names of its cards and their model.
MOST_PODS = 1001
CARDS, MODEL = "koordinator.sh/gpu-core", "alibabacloud.com/gpu-card-model"
#: Pods between two reports of progress.
EVERY = 500

T = TypeVar("T")


class Arrivals(msgspec.Struct, frozen=True):
    """One order of arrival: a trace's pods, inflated and shuffled with a seed."""

    trace: str
    seed: int


class Scene(msgspec.Struct, frozen=True):
    """Nodes in the order of ties, pods in the order of arrival, and the typical pods of the whole trace."""

    arrivals: Arrivals
    nodes: Sequence[TraceNode]
    pods: Sequence[TracePod]
    typical: Sequence[Typical]


class Placement(msgspec.Struct, frozen=True):
    """A node's name and a pod's cards there."""

    node: str
    cards: tuple[int, ...]


class Result(msgspec.Struct, frozen=True):
    """The result for the pods of one order."""

    trace: str
    policy: str
    seed: int
    pods: int
    failed: int
    used_milli: int
    #: Allocated percent of all cards, by arrived percent of demand: means over each rounded percent.
    allocation: Mapping[int, float]
    #: CPU seconds, or those of the clock on the wall where bus and ledger take part; and decisions in one.
    seconds: float
    speed: float
    #: CPU seconds of this process, reading and writing included.
    cpu_seconds: float
    #: SHA-256 over a line of each placement: ``index,node,card+card`` or ``index,-``.
    digest: str


def given_arrivals(folder: Path, trace: str) -> list[Arrivals]:
    """The orders of a trace in a folder, by seed. Raises ObservationError for none."""
    names = [_ARRIVALS.fullmatch(path.name) for path in (folder / "arrivals").glob("*-pods.txt")]
    found = sorted(int(one["seed"]) for one in names if one and one["trace"] == trace)
    if not found:
        raise ObservationError(f"{folder / 'arrivals'} has no order of arrival of {trace!r}")
    return [Arrivals(trace, seed) for seed in found]


def read_scene(folder: Path, arrivals: Arrivals) -> Scene:
    """Read an order of arrival with its pods and nodes. Raises ObservationError naming the place of an error."""
    stem = f"{arrivals.trace}-{arrivals.seed}"
    nodes = {one.name: one for one in read_nodes(folder / GPU_NODES_FILE)}
    pods = {one.name: one for one in read_pods(folder / PODS.format(trace=arrivals.trace))}
    kinds = Counter(
        (one.cpu_milli, one.gpu_milli, one.num_gpu, models_of(one)) for one in pods.values()
    )
    return Scene(
        arrivals,
        _named(folder / "arrivals" / f"{stem}-nodes.txt", nodes),
        _named(folder / "arrivals" / f"{stem}-pods.txt", pods),
        [Typical(*kind, part) for kind, part in typical_kinds(kinds)],
    )


def models_of(pod: TracePod) -> tuple[str, ...]:
    """The possible GPU models of a pod; none = any."""
    return tuple(pod.gpu_spec.split("|")) if pod.num_gpu and pod.gpu_spec else ()


def nodes_of(nodes: Sequence[TraceNode], time_us: int = 0) -> Iterator[tuple[NodeObserved, Event]]:
    """These nodes as facts and their events, in the order of their uids."""
    for rank, one in enumerate(nodes):
        allocatable = {
            "cpu": f"{one.cpu_milli}m",
            "memory": f"{one.memory_mib}Mi",
            "pods": str(MOST_PODS),
            CARDS: str(100 * one.gpu),
        }
        fact = NodeObserved(
            uid=f"{rank:06}",
            name=one.name,
            resource_version="1",
            model=one.model or None,
            allocatable=allocatable,
            ready=True,
            labels={MODEL: one.model},
        )
        yield (
            fact,
            fact.event(cluster=SOURCE, key=one.name, id=one.name, source=SOURCE, time_us=time_us),
        )


def pods_of(scene: Scene) -> Iterator[Pod]:
    """The pods in the form of observations; equal ones share their demand."""
    parts: dict[str, tuple[dict[str, int], PodConstraints | None]] = {}
    for number, one in enumerate(scene.pods):
        if one.name not in parts:
            demand = {f"requests.{name}": amount for name, amount in demanded(one).items()}
            parts[one.name] = demand, selecting(one)
        demand, constraints = parts[one.name]
        yield Pod(
            f"{scene.arrivals.seed}-{number}", "openb", f"{one.name}-{number}", "1", number, "Pending", "", False, number,
            0, "", None, {}, {}, demand, (0, 0), constraints,
        )  # fmt: skip


def demanded(pod: TracePod) -> dict[str, int]:
    """The requests of a pod, by resource: cpu in milli."""
    found = {
        "cpu": pod.cpu_milli,
        "memory": pod.memory_mib * 2**20,
        # In hundredths of a card, rounded up.
        CARDS: -(-pod.num_gpu * pod.gpu_milli // 10),
    }
    return {name: amount for name, amount in found.items() if amount}


def selecting(pod: TracePod) -> PodConstraints | None:
    """Where a pod may go, where its models say so."""
    models = models_of(pod)
    if not models:
        return None
    term = NodeSelectorTerm((Requirement(MODEL, "In", models),))
    return PodConstraints(affinity=Affinity(AffinityToNodes(NodeSelector((term,)))))


def _named(path: Path, known: Mapping[str, T]) -> list[T]:
    try:
        names = path.read_text(encoding="utf-8").split()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ObservationError(f"{path} cannot be read: {reason}") from error
    for line, name in enumerate(names, 1):
        if name not in known:
            raise ObservationError(f"{path.name}, line {line}: {name[:40]!r} is in no list")
    return [known[name] for name in names]


def framework_of(scene: Scene, policy: Name) -> Framework:
    """The scheduler's framework over the empty cluster, with a profile of one packing policy."""
    packing = GpuCards(policy, tuple(scene.typical) if policy == "FGD" else ())
    plugins = (
        Enabled(PrioritySort()),
        Enabled(NodeResourcesFit(), 0),
        Enabled(NodeAffinity(), 0),
        Enabled(packing),
    )
    # Random draws one of equal nodes; the published comparison takes the first.
    profile = Profile("openb", plugins, takes_first=policy != "Random")
    state = ClusterState()
    for fact, event in nodes_of(scene.nodes):
        state.apply(fact, event)
    return Framework(profile, PluginContext(Columns(state)))


def replay(scene: Scene, policy: Name, arrived: Callable[[int], None] = lambda _: None) -> Result:
    """Place every pod of an order. ``arrived`` is told how many have come."""
    framework = framework_of(scene, policy)
    arrivals = framework.columns.facts.learned()
    pods = list(pods_of(scene))
    began = time.process_time()
    placements: list[Placement | None] = []
    for number, pod in enumerate(pods, 1):
        arrivals.count(pod)
        placements.append(place(framework, pod))
        if number % EVERY == 0:
            arrived(number)
    seconds = time.process_time() - began
    arrived(len(pods))
    return result_of(scene, policy, placements, seconds, seconds)


def result_of(
    scene: Scene,
    policy: Name,
    placements: Sequence[Placement | None],
    seconds: float,
    cpu_seconds: float,
) -> Result:
    """The result for the pods, after so many seconds."""
    capacity = 1000 * sum(one.gpu for one in scene.nodes)
    both = zip(scene.pods, placements, strict=True)
    return Result(
        trace=scene.arrivals.trace,
        policy=policy,
        seed=scene.arrivals.seed,
        pods=len(placements),
        failed=sum(one is None for one in placements),
        used_milli=sum(pod.num_gpu * pod.gpu_milli for pod, one in both if one is not None),
        allocation=_allocation(capacity, scene.pods, placements),
        seconds=round(seconds, 2),
        speed=round(len(placements) / max(seconds, 1e-9)),
        cpu_seconds=round(cpu_seconds, 2),
        digest=hashlib.sha256("".join(_lines(placements)).encode()).hexdigest(),
    )


def place(framework: Framework, pod: Pod) -> Placement | None:
    """Place a pod on its best node; None where it fits nowhere."""
    cycle = Cycle(pod, framework.context)
    choice = framework.choose(cycle, pod.started_us)
    if choice.row < 0:
        return None
    node, cards = framework.columns.names[choice.row], framework.cards(cycle, choice.row)
    framework.columns.place(pod, node, cards)
    return Placement(node, cards)


def _lines(placements: Sequence[Placement | None]) -> Iterator[str]:
    for number, one in enumerate(placements):
        if one is None:
            yield f"{number},-\n"
        else:
            yield f"{number},{one.node},{'+'.join(map(str, one.cards))}\n"


def _allocation(
    capacity: int, pods: Sequence[TracePod], placements: Sequence[Placement | None]
) -> dict[int, float]:
    arrived = used = 0
    sums: dict[int, tuple[float, int]] = {}
    for pod, placement in zip(pods, placements, strict=True):
        milli = pod.num_gpu * pod.gpu_milli
        arrived += milli
        used += milli if placement is not None else 0
        percent = round(100 * arrived / capacity)
        before, count = sums.get(percent, (0.0, 0))
        # Two decimals each time, as the published curves are made.
        sums[percent] = before + round(100 * used / capacity, 2), count + 1
    return {percent: round(found / count, 2) for percent, (found, count) in sums.items()}
