"""A scenario whose scheduler gives pods CPUs of their own."""

import msgspec

from bus.events.constraints import CpuTerms, PodConstraints
from bus.events.nodes import NodeTopologyObserved, NumaZone
from reactors.scheduling.reactor import reactor
from reactors.scheduling.settings import SchedulingPolicy, SchedulingProfile
from tests import factories as f
from tests.scenario import Scenario

OFFERED = {"cpu": "16", "memory": "64Gi", "pods": "110"}
POLICY = SchedulingPolicy(profiles=(SchedulingProfile(weights={"NodeNUMAResource": 10}),))
ALIGNED = {"node.koordinator.sh/numa-topology-policy": "Restricted"}
CPUS = 8


def pod(at, name, cpu, version=1, node=None, holds=None, qos="LSR", also=None, **terms):
    said = PodConstraints(scheduler_name="bursar", cpus=CpuTerms(qos, holds=holds, **terms))
    return f.pod_observed(
        name, version, at.at(), node=node, priority=9_500, resources=f.requesting({"cpu": str(cpu)} | (also or {})),
        constraints=msgspec.Raw(msgspec.json.encode(said)),
    )  # fmt: skip


def topology(at, node, version=1, **fields):
    zones = tuple(NumaZone(n, {"cpu": "4"}) for n in (0, 1))
    told = {"cpus": tuple((n, n // 2, 0, n // 4) for n in range(CPUS)), "zones": zones} | fields
    fact = NodeTopologyObserved(uid=f"t-{node}", name=node, resource_version=str(version), **told)
    return f.said(fact, key=node, id=f"topology/{node}/{version}", at=at.at())


async def scene(names="ab"):
    at = Scenario(reactor, {})
    for name in names:
        labels = ALIGNED if name == "b" else {}
        await at.say(
            f.node_observed(name, 1, at.at(), uid=name, allocatable=OFFERED, further_labels=labels),
            topology(at, name),
        )
    await at.set_policy(POLICY)
    return at
