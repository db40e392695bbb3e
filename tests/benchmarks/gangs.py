"""How long a pass takes that places one large gang, in process.

    python -m tests.benchmarks.gangs [--nodes 1000] [--pods 1000] [--rounds 5] [-o json]

*placed*: the pass of a gang whose every pod finds a node, with its record and its effect where it stands. *refused*: that of a gang
which lacks room for its last pod, so that all is tried and taken back. *in one zone*: as *placed*, on nodes of one zone.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

from bus.events.constraints import GangTerms, PodConstraints
from projections.cluster import ClusterState, Pod
from projections.cluster.objects import Change
from reactors.scheduling.cycle.passes import Scheduler
from reactors.scheduling.cycle.trial import attempts
from reactors.scheduling.plugins.catalogue import profile_of
from reactors.scheduling.shape import Mark
from tests.benchmarks import measure
from tests.benchmarks.cluster_state import MIB
from tests.benchmarks.measure import Report
from tests.benchmarks.scheduling import ZONE, cluster

NAME = "bursar"
#: Cores of a node of :func:`tests.benchmarks.scheduling.cluster`.
CORES = 32


def gang(count: int, cores: int) -> list[Pod]:
    """Waiting pods of one gang that needs all of them."""
    terms = PodConstraints(NAME, gang=GangTerms("g", is_light=True, least=str(count)))
    demand = {"requests.cpu": cores * 1_000, "requests.memory": 1024 * MIB}
    return [
        Pod(
            f"pod-{number:05}", "ns", f"pod-{number:05}", "1", number, "Pending", "", False, number, 0, "",
            None, {}, {}, demand, (0, 0), terms,
        )
        for number in range(count)
    ]  # fmt: skip


def scheduler(state: ClusterState, waiting: list[Pod], topology: Sequence[str] = ()) -> Scheduler:
    """A scheduler for whose queue these pods wait; their gang gets nodes of one domain of these labels."""
    state.pods.update({pod.uid: pod for pod in waiting})
    profile = profile_of(NAME, {}, {"Coscheduling": {"topology": topology}})
    found = Scheduler([profile], state)
    found.follow([Change(pod.kind, pod.uid, None, pod) for pod in waiting], 1, 0)
    return found


def placed(nodes: int, pods: int, topology: Sequence[str] = ()) -> float:
    """CPU seconds until all pods of a gang may be bound."""
    found = scheduler(cluster(nodes), gang(pods, 8), topology)
    began = time.process_time()
    tried = attempts(found, 1, 0, 500)[NAME]
    for one in tried:
        found.place(NAME, one.pod.uid, one.node, one.cards, Mark(2, "pass", 1, 1))
    spent = time.process_time() - began
    assert len(list(found.outstanding())) == pods
    if topology:
        assert len({int(one.node.rpartition("-")[2]) % 3 for one in tried}) == 1
    return spent


def refused(nodes: int, pods: int) -> float:
    """CPU seconds until it is known that one pod too many waits."""
    found = scheduler(cluster(min(nodes, pods) - 1), gang(min(nodes, pods), CORES))
    began = time.process_time()
    tried = attempts(found, 1, 0, 500)[NAME]
    spent = time.process_time() - began
    assert not any(one.node for one in tried)
    return spent


def run(args: argparse.Namespace) -> Report:
    """A new cluster in each round."""
    placed(args.nodes, args.pods)
    rates: dict[str, list[float]] = {"placed": [], "refused": [], "in one zone": []}
    for _ in range(args.rounds):
        rates["placed"].append(placed(args.nodes, args.pods))
        rates["refused"].append(refused(args.nodes, args.pods))
        rates["in one zone"].append(placed(args.nodes, args.pods, (ZONE,)))
    goals = [
        measure.verdict(f"CPU seconds for a gang of {args.pods:,}, {name}", found, "<=", 1)
        for name, found in rates.items()
    ]
    return {"rounds": args.rounds, "per_event": {}, "goals": goals, "notes": []}


if __name__ == "__main__":
    raise SystemExit(measure.main(run, "Placing a gang, in process.", nodes=1_000, pods=1_000))
