"""The list of every ten minutes by metadata alone, against the same list of objects, at a real API server.

    python -m tests.benchmarks.lists [--pods 15000] [--nodes 500] [--rounds 5] [-o json]

Pods and claims are those of :mod:`tests.benchmarks.claims`, all of them known already, as in a list whose watch told everything.
Counted is our own CPU a listed object, connection included.
"""

from __future__ import annotations

import argparse
import asyncio

from bus.clock import ServerClock, SystemClock
from bus.kube.client import Access, connect
from bus.kube.watch.backoff import Backoff
from bus.kube.watch.contract import Cluster, ReflectorSettings, ReflectorState, Source
from bus.kube.watch.labels import LabelPolicy
from bus.kube.watch.listing import ListReader
from bus.kube.watch.observing import Observing
from bus.kube.watch.publishing import EventPublisher
from bus.kube.watch.seen_versions import SeenVersions
from bus.memory import MemoryTransport
from bus.sources.catalogue import PODS, RESOURCE_CLAIMS
from tests.benchmarks import claims, measure, traffic
from tests.benchmarks.measure import Cost, Goal, Report, Stopwatch
from tests.cluster.plane import ControlPlane


def reader(source: Source, cluster: Cluster) -> ListReader:
    """What lists a source."""
    settings, state = ReflectorSettings(), ReflectorState()
    known = SeenVersions({}, every_version=source.every_version, is_bound=source.is_bound)
    waits = Backoff(settings, state, asyncio.sleep, lambda: 0.0)
    return ListReader(
        source,
        cluster,
        Observing(source, LabelPolicy(), state, known, "bench"),
        known,
        EventPublisher(MemoryTransport(), state, settings, waits, None),
        ServerClock(SystemClock()),
        settings,
    )


async def rounds(plane: ControlPlane, pods: int, many: int) -> list[dict[str, Cost]]:
    """The cost of an object in each round, listed both ways."""
    cluster = await connect(Access(str(plane.kubeconfig)))
    readers = [reader(source, cluster) for source in (PODS, RESOURCE_CLAIMS)]
    found = []
    for number in range(many + 1):
        costs = {}
        for metadata_only in (False, True) if number % 2 else (True, False):
            with Stopwatch() as clock:
                for one in readers:
                    listed = (await one.read(metadata_only=metadata_only)).versions or {}
                    assert len(listed) == pods
            costs["metadata" if metadata_only else "objects"] = clock.cost(2 * pods)
        found.append(costs)
    await cluster.close()
    # The first round warms up.
    return found[1:]


def run(args: argparse.Namespace) -> Report:
    """All rounds on one control plane."""
    with ControlPlane(controllers=False, scheduler=False, simulator=False) as plane:
        claims.write(traffic.Etcd(plane.etcd_url), claims.objects(args.pods, args.nodes))
        results = asyncio.run(rounds(plane, args.pods, args.rounds))
    goal = Goal("CPU of a periodic list: objects / metadata", "cpu", "objects", "metadata", ">=", 4)
    return measure.judged(results, [goal])


if __name__ == "__main__":
    raise SystemExit(measure.main(run, __doc__ or "", pods=15_000, nodes=500))
