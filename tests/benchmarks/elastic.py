"""One pod's change in a tree of 10,000 elastic quotas in five levels with 100,000 pods.

    python -m tests.benchmarks.elastic [--changes 5000] [--rounds 5] [-o json]

A change is a pod that comes, goes or grows in a random leaf, and the question what that leaf may use now; three resources,
the cluster half as large as what is asked, so that every level is divided. The tree is *even*: each parent has 6 to 7
children on average, 28 at most. Memory is what Python allocates for the tree (tracemalloc) without the quotas given to it.

*wide* is the same with a thousand leaves under each parent, for comparison: to divide costs what the children of each parent
on the path cost. *scratch* is the plain function over the whole tree, the control. No figure counts before all three say
the same of every quota. Goal: under 1 ms, for the 99th percentile of CPU time; wall time, in which
others on the machine count too, is in the notes.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
import tracemalloc
from typing import NamedTuple

from projections.quota_trees.elastic import ROOT, ElasticQuota, ElasticTree, PodSums
from tests.benchmarks import measure
from tests.benchmarks.measure import Report
from tests.elastic_plainly import refreshed

EVEN = (5, 32, 200, 1263, 8500)
WIDE = (1, 1, 3, 10, 9985)
PODS = 100_000
KEYS = ("cpu", "memory", "nvidia.com/gpu")
MIB = 1024 * 1024
WIDE_CHANGES = 200


class World(NamedTuple):
    """The quotas, the names of the leaves, what each pod asks, and the cluster."""

    quotas: list[ElasticQuota]
    leaves: list[str]
    pods: list[tuple[str, dict[str, int]]]
    cluster: dict[str, int]


def world(levels: tuple[int, ...]) -> World:
    """A tree with so many quotas in each level, the parents drawn from the level above."""
    rng = random.Random(1)
    above, quotas = [ROOT], []
    for depth, width in enumerate(levels):
        names = [f"q{depth}-{number:05}" for number in range(width)]
        for number, name in enumerate(names):
            # Every parent has a child at least, so that all leaves lie in the last level.
            parent = above[number] if number < len(above) else rng.choice(above)
            quotas.append(_quota(name, parent, PODS * 4 // width, rng))
        above = names
    pods = [(rng.choice(above), _asked(rng)) for _ in range(PODS)]
    total = {key: sum(asked[key] for _, asked in pods) for key in KEYS}
    return World(quotas, above, pods, {key: amount // 2 for key, amount in total.items()})


def _quota(name: str, parent: str, pods: int, rng: random.Random) -> ElasticQuota:
    most = {"cpu": pods * 4000, "memory": pods * 16 << 30, "nvidia.com/gpu": pods}
    least = {key: value // rng.randint(20, 200) for key, value in most.items()}
    return ElasticQuota(name, parent, most, least, dict(most), lends=rng.random() < 0.9)


def _asked(rng: random.Random) -> dict[str, int]:
    return {
        "cpu": rng.randint(1, 64) * 250,
        "memory": rng.randint(1, 64) << 30,
        "nvidia.com/gpu": rng.randint(0, 8),
    }


def built(made: World) -> ElasticTree:
    """The tree with all pods in it."""
    tree = ElasticTree()
    tree.set_cluster(made.cluster)
    for quota in made.quotas:
        tree.set_quota(quota)
    for name, asked in made.pods:
        tree.add_pods(name, PodSums(asked, asked))
    return tree


class Times(NamedTuple):
    """Microseconds of changes alone (CPU), and with their question (CPU and wall)."""

    alone: list[float]
    answered: list[float]
    wall: list[float]


def changed(made: World, tree: ElasticTree, changes: int, seed: int) -> Times:
    """So many changes, each with its question; the pods are changed too."""
    rng = random.Random(seed)
    times = Times([], [], [])
    for _ in range(changes):
        number = rng.randrange(PODS)
        name, old = made.pods[number]
        new = _asked(rng)
        delta = {key: new[key] - old[key] for key in KEYS}
        change = PodSums(delta, delta)
        begin, begin_cpu = time.perf_counter(), time.thread_time()
        tree.add_pods(name, change)
        said_cpu = time.thread_time()
        tree.runtime(name)
        end, end_cpu = time.perf_counter(), time.thread_time()
        times.alone.append((said_cpu - begin_cpu) * 1e6)
        times.answered.append((end_cpu - begin_cpu) * 1e6)
        times.wall.append((end - begin) * 1e6)
        made.pods[number] = (name, new)
    return times


def scratch_seconds(made: World, tree: ElasticTree) -> float:
    """How long the plain function takes; it must say of every quota what the tree says."""
    requests: dict[str, dict[str, int]] = {}
    for name, asked in made.pods:
        own = requests.setdefault(name, dict.fromkeys(KEYS, 0))
        for key in KEYS:
            own[key] += asked[key]
    begin = time.perf_counter()
    figures = refreshed(made.quotas, made.cluster, requests, requests)
    taken = time.perf_counter() - begin
    assert figures == {quota.name: tree.figures(quota.name) for quota in made.quotas}
    return taken


def megabytes(made: World) -> float:
    """MiB that Python allocates for a tree once every quota was asked."""
    tracemalloc.start()
    tree = built(made)
    for quota in made.quotas:
        tree.runtime(quota.name)
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return size / MIB


def percentile(figures: list[float], part: int) -> float:
    """The so manyth of a hundred."""
    return statistics.quantiles(figures, n=100)[part - 1]


def spread(figures: list[float]) -> str:
    """Median and 99th percentile of microseconds."""
    return f"median {statistics.median(figures):.0f} us, p99 {percentile(figures, 99):.0f} us"


def run(args: argparse.Namespace) -> Report:
    """All rounds on one tree; the first one warms up."""
    even, wide = world(EVEN), world(WIDE)
    size = megabytes(even)
    tree, broad = built(even), built(wide)
    rounds = [changed(even, tree, args.changes, number) for number in range(args.rounds + 1)][1:]
    broadly = changed(wide, broad, WIDE_CHANGES, 1)
    taken = scratch_seconds(even, tree)
    scratch_seconds(wide, broad)
    notes = [
        f"a change alone, CPU: {spread([one for times in rounds for one in times.alone])}",
        f"with its question, CPU: {spread([one for times in rounds for one in times.answered])}",
        f"with its question, wall: {spread([one for times in rounds for one in times.wall])}",
        f"wide, {WIDE_CHANGES} changes, CPU: {spread(broadly.answered)}",
        f"scratch: {taken * 1e3:.0f} ms; all figures of {len(even.quotas)} quotas equal",
        f"memory of the tree: {size:.1f} MiB, {size * MIB / len(even.quotas):.0f} B a quota",
    ]
    medians = [statistics.median(times.answered) / 1e3 for times in rounds]
    last = [percentile(times.answered, 99) / 1e3 for times in rounds]
    goals = [
        measure.verdict("a pod's change and its quota's runtime, CPU ms, p99", last, "<=", 1),
        measure.verdict("the same, median", medians, "<=", 1),
    ]
    return {"rounds": args.rounds, "per_event": {}, "goals": goals, "notes": notes}


if __name__ == "__main__":
    raise SystemExit(measure.main(run, "One change in a large quota tree.", changes=5_000))
