"""A cluster whose quotas are kept by the product's keeper, and whose pods a scheduler starts by them."""

from bus.events.decisions import SchedulingPassed
from reactors.engine.verify import rederive
from reactors.scheduling.reactor import reactor
from reactors.scheduling.settings import SchedulingPolicy, SchedulingProfile
from tests.reactors.admission import below
from tests.reactors.cluster import QUOTA, Cluster
from tests.reactors.engine.restoring import known, restored
from tests.reactors.scheduling.scene import OURS
from tests.scenario import FAST, Scenario

KEY = "requests.cpu"
LATER = "2026-01-01T00:00:00Z"
ROOM = {"cpu": "64", "memory": "64Gi", "pods": "110"}


class Governed(Cluster):
    """A cluster whose keeper writes the journals, and a scheduler that starts pods by them."""

    def __init__(self, **options):
        super().__init__(**options)
        self.deciding = Scenario(
            reactor, {}, cluster=self.cluster, transport=self.transport, clock=self.clock
        )

    @property
    def state(self):
        return self.deciding.runner.replica.states["scheduling"]

    async def begin(self, mode="on", preemption="off", is_asked=True, nodes=1, room=ROOM):
        for number in range(nodes):
            await self.see_node(f"n{number}", f"uid-n{number}", allocatable=room)
        await self.policy(mode, preemption, is_asked)

    async def policy(self, mode="on", preemption="off", is_asked=True):
        profile = SchedulingProfile(weights={"Quota": 1} if is_asked else {})
        policy = SchedulingPolicy(profiles=(profile,), preemption=preemption, pace=FAST)
        await self.deciding.set_policy(policy, mode)

    async def wait(self, uid, cpu=1, *, by=None, quota="team", **fields):
        """A pod of ours waits."""
        labels = {QUOTA: quota} if quota else {}
        fields = {"labels": labels, "constraints": OURS, "phase": "Pending"} | fields
        await self.see_pod(uid, cpu, owner=below.owner(*by) if by else None, **fields)

    async def run(self, uid, cpu=1, *, quota="team", node="n0", priority=0, **fields):
        """A pod that the quota charges by itself, on a node."""
        await self.wait(uid, cpu, quota=quota, node=node, phase="Running", priority=priority, **fields)  # fmt: skip

    async def tick(self, seconds=10):
        await self.settled()
        await self.deciding.tick(seconds)
        await self.settled()
        await self.deciding.read()

    def placed(self):
        return {
            pod.uid: passed.nodes[pod.node]
            for passed in self.facts(SchedulingPassed)
            for pod in passed.pods
            if pod.node >= 0
        }

    def why(self, uid):
        one = self.state.scheduler.queues["bursar"].get(uid)
        return one.reason if one is not None else ""

    def nominated(self):
        return [
            (one.uid, [victim.name for victim in one.victims])
            for passed in self.facts(SchedulingPassed)
            for one in passed.nominated
        ]

    def same(self):
        """Every pass is derived again from the history alone, and a start from a snapshot knows the same."""
        found = rederive(lambda: iter(self.transport.events), [reactor], self.cluster)
        assert found.mismatches == () and found.same >= len(self.facts(SchedulingPassed))
        replica = self.deciding.runner.replica
        assert told(replica) == told(restored(replica))


def told(replica):
    """All that is known. Pods below owners lie in buckets, whose order says nothing."""
    found = known(replica)
    quotas = found["own"]["scheduling"]["quotas"]
    if quotas is not None:
        quotas["coverage"]["lives"]["pods"].sort(key=lambda pod: pod["uid"])
    return found
