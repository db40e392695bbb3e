"""ADAPTER: plays the arrivals of a recorded trace on its GPU nodes by a packing policy, and measures what is allocated.

A folder holds the node list, a pod list for each trace and ``arrivals/<trace>-<seed>-pods.txt`` (names in the order of
arrival) with ``-nodes.txt`` (names in the order in which ties go). A pod that fits nowhere is tried once and counts as
arrived; nothing leaves.

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

from bus.errors import ObservationError
from bus.sources.openb import GPU_NODES_FILE, TracePod, read_nodes, read_pods
from reactors.scheduling.packing.catalogue import POLICIES, Given
from reactors.scheduling.packing.fragmentation import Typical, kind_of, typical_pods
from reactors.scheduling.packing.machines import Machine, Machines, Placement, Shape
from reactors.scheduling.packing.packer import Packer

PODS = "openb_pod_list_{trace}.csv"
_ARRIVALS = re.compile(r"(?P<trace>\w+)-(?P<seed>\d+)-pods\.txt")
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
    machines: Sequence[Machine]
    pods: Sequence[Shape]
    typical: Sequence[Typical]


class Result(msgspec.Struct, frozen=True):
    """What became of the pods of one order."""

    trace: str
    policy: str
    seed: int
    pods: int
    failed: int
    used_milli: int
    #: Percent of all cards that are allocated, by percent of demand that has arrived: means over each rounded percent.
    allocation: Mapping[int, float]
    #: CPU seconds, and decisions in one.
    seconds: float
    speed: float
    #: SHA-256 over a line of each placement: ``index,node,card+card`` or ``index,-``.
    digest: str


def given_arrivals(folder: Path, trace: str) -> list[Arrivals]:
    """The orders of a trace that a folder has, by seed. Raises ObservationError for none."""
    names = [_ARRIVALS.fullmatch(path.name) for path in (folder / "arrivals").glob("*-pods.txt")]
    found = sorted(int(one["seed"]) for one in names if one and one["trace"] == trace)
    if not found:
        raise ObservationError(f"{folder / 'arrivals'} has no order of arrival of {trace!r}")
    return [Arrivals(trace, seed) for seed in found]


def read_scene(folder: Path, arrivals: Arrivals) -> Scene:
    """Read an order of arrival with its pods and nodes. Raises ObservationError naming what is wrong where."""
    stem = f"{arrivals.trace}-{arrivals.seed}"
    nodes = {
        one.name: Machine(one.name, one.cpu_milli, one.memory_mib, one.gpu, one.model)
        for one in read_nodes(folder / GPU_NODES_FILE)
    }
    path = folder / PODS.format(trace=arrivals.trace)
    shapes = {one.name: _shape(one) for one in read_pods(path)}
    return Scene(
        arrivals,
        _named(folder / "arrivals" / f"{stem}-nodes.txt", nodes),
        _named(folder / "arrivals" / f"{stem}-pods.txt", shapes),
        typical_pods(Counter(kind_of(one) for one in shapes.values())),
    )


def _shape(pod: TracePod) -> Shape:
    models = tuple(pod.gpu_spec.split("|")) if pod.num_gpu and pod.gpu_spec else ()
    return Shape(pod.cpu_milli, pod.memory_mib, pod.num_gpu, pod.gpu_milli, models)


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


def replay(scene: Scene, policy: str, arrived: Callable[[int], None] = lambda _: None) -> Result:
    """Place every pod of an order. ``arrived`` is told how many have come."""
    machines = Machines(scene.machines)
    given = Given(machines, scene.typical, scene.arrivals.seed)
    packer = Packer(machines, POLICIES[policy](given))
    began = time.process_time()
    placements = []
    for number, shape in enumerate(scene.pods, 1):
        placements.append(packer.place(shape))
        if number % EVERY == 0:
            arrived(number)
    seconds = time.process_time() - began
    arrived(len(scene.pods))
    lines = "".join(_lines(machines, placements))
    return Result(
        trace=scene.arrivals.trace,
        policy=policy,
        seed=scene.arrivals.seed,
        pods=len(placements),
        failed=sum(one is None for one in placements),
        used_milli=machines.capacity - int(machines.idle.sum()),
        allocation=_allocation(machines.capacity, scene.pods, placements),
        seconds=round(seconds, 2),
        speed=round(len(placements) / max(seconds, 1e-9)),
        digest=hashlib.sha256(lines.encode()).hexdigest(),
    )


def _lines(machines: Machines, placements: Sequence[Placement | None]) -> Iterator[str]:
    for number, one in enumerate(placements):
        if one is None:
            yield f"{number},-\n"
        else:
            yield f"{number},{machines.names[one.row]},{'+'.join(map(str, one.cards))}\n"


def _allocation(
    capacity: int, pods: Sequence[Shape], placements: Sequence[Placement | None]
) -> dict[int, float]:
    arrived = used = 0
    sums: dict[int, tuple[float, int]] = {}
    for shape, placement in zip(pods, placements, strict=True):
        arrived += shape.total
        used += shape.total if placement is not None else 0
        percent = round(100 * arrived / capacity)
        before, count = sums.get(percent, (0.0, 0))
        # Two decimals each time, as the published curves are made.
        sums[percent] = before + round(100 * used / capacity, 2), count + 1
    return {percent: round(found / count, 2) for percent, (found, count) in sums.items()}
