"""Histories for tables: what other tests live through in short names, told again in names as long as clusters have them."""

import msgspec

from bus.events.quotas import Budget
from reactors.scheduling.reactor import reactor
from reactors.scheduling.settings import SchedulingPolicy
from tests import factories as said
from tests.deploy.quota_ledger import lived
from tests.projections.devices.claimed import card, claim_observed, slice_observed
from tests.projections.devices.claimed_worlds import part
from tests.reactors.jobs.running import Running, job
from tests.reactors.jobs.scene import EXIT, begun
from tests.scenario import Scenario
from tests.simulation.loop import simulate

POD = "inference-of-the-large-language-model-of-the-second-floor-58bb67445-fjftz"
NAMESPACE = "a-namespace-with-a-name-that-is-long"
TEAM = "natural-language-understanding"
QUOTA = "research-and-development-of-natural-language-understanding"
JOB = "fine-tuning-of-the-large-language-model"
NODE = "gpu-node-17.rack-12.datacentre-frankfurt.example.org"
MODEL = "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb"
BIZ = "biz.group.resource.quota"
DAY = 86_400
MILLI_HOUR = 3_600_000


def renamed(events, names):
    """The same events with other names for what they are about; uids, keys and times stay."""
    found = []
    for event in events:
        body = event.body
        for short, long in names.items():
            for end in ("", "-worker-0", "-worker-1"):
                body = body.replace(f'"{short}{end}"'.encode(), f'"{long}{end}"'.encode())
        found.append(msgspec.structs.replace(event, body=body))
    return found


def quotas():
    """A tree of quotas with a budget, workloads that hold some of it, and refusals."""
    return renamed(simulate(lived()), {"team": QUOTA, "ns": NAMESPACE, "train": JOB, "lab": TEAM})


def spent():
    """A quota whose limit and budget are nearer every day, for twenty days."""
    hard, cash = {"limits.cpu": 40_000}, {"limits.cpu": 20_000 * MILLI_HOUR}
    yield said.quota_observed(
        QUOTA, 1, 0, hard=hard, cash=cash, budget=Budget("Total", exhaustion="Warn")
    )
    for day in range(20):
        fields = {"labels": {BIZ: QUOTA}, "cpu": "1", "node": "n"}
        at = day * DAY
        yield said.pod_observed(f"p{day}", 1, at + 1, created=at, **fields)


def devices():
    """A card that a pod holds by a claim, one in parts with a claim that nothing holds, and those of a device plugin."""
    names = {"p": POD, "ns": NAMESPACE, "blue": TEAM, "n": NODE, "plain": f"plain-{NODE}"}
    return renamed(
        [
            slice_observed(
                card("gpu-0", MODEL), card("gpu-1", MODEL), part("part-0", "20Gi"),
                counters={"set": {"memory": "80Gi"}},
            ),
            claim_observed("whole", "gpu-0", stamp=1, at=1),
            claim_observed("kept", "part-0", stamp=5, at=5, team="red"),
            said.pod_observed("p", claims=("whole",), at=10, created=1, namespace="ns", team="blue"),
            said.node_observed("plain", allocatable={"nvidia.com/gpu": "4", "cpu": "8"}),
            *said.pods_listed(["p"], "9", 100),
        ],
        names,
    )  # fmt: skip


def jobs():
    """A training job of which a worker was killed and replaced."""
    return renamed(simulate(_killed()), {"train": JOB, "ns": NAMESPACE})


async def _killed():
    world = Running({"worker-1-1": 137})
    await world.begin()
    await world.submit(job())
    await world.turns(4)
    return list(world.transport.events)


def shadow():
    """A training job beside its operator, whose steps were decided in shadow and partly taken."""
    return renamed(simulate(_beside()), {"train": JOB, "ns": NAMESPACE})


async def _beside():
    scene = await begun(**EXIT)
    await scene.see_pod(1, "Failed", exits={"tensorflow": 137})
    await scene.lose_pod(1)
    await scene.see_pod(2)
    return list(scene.transport.events)


def pods():
    """A pod that was placed, one that fits nowhere; nodes that refuse for reasons."""
    names = {"first": POD, "stuck": f"stuck-{POD}", "ns": NAMESPACE, "a": NODE, "d": f"spare-{NODE}"}  # fmt: skip
    return renamed(simulate(_placed()), names)


def bound():
    """The same in shadow, beside another scheduler that bound the first pod."""
    return renamed(simulate(_placed("shadow")), {"first": POD, "ns": NAMESPACE, "a": NODE})


async def _placed(mode="on"):
    at = Scenario(reactor, {})
    await at.set_policy(SchedulingPolicy(), mode)
    nodes = [
        said.node_observed(name, number, at.at(), uid=f"uid-{name}", allocatable={"cpu": cpu, "memory": "8Gi", "pods": "9"}, **more)
        for number, (name, cpu, more) in enumerate([("a", "4", {}), ("c", "2", {}), ("d", "64", {"unschedulable": True})], 1)
    ]  # fmt: skip
    terms = msgspec.Raw(b'{"schedulerName":"bursar"}')
    waiting = [
        said.pod_observed(uid, number, at.at(), node=None, cpu=cpu, memory="1Gi", constraints=terms)
        for number, (uid, cpu) in enumerate({"first": "3", "stuck": "9"}.items(), 10)
    ]
    await at.say(*nodes, *waiting)
    if mode == "shadow":
        bound = said.pod_observed("first", 20, at.at(), node="a", cpu="3", constraints=terms)
        await at.say(bound)
    return at.transport.events


HISTORIES = {
    "quotas": quotas,
    "spent": spent,
    "devices": devices,
    "jobs": jobs,
    "shadow": shadow,
    "pods": pods,
    "bound": bound,
}
