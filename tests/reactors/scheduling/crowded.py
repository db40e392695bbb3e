"""A cluster in memory whose nodes are full, and whose API server evicts pods, or refuses to."""

from bus.errors import ClusterUnavailableError, NotFoundError
from bus.events.decisions import Evict, SchedulingPassed
from reactors.effectors.evict import EvictEffector
from reactors.scheduling.settings import SchedulingPolicy
from tests.reactors.scheduling.scene import Cluster
from tests.scenario import FAST

PDB = ClusterUnavailableError(
    status=429,
    message="Cannot evict pod as it would violate the pod's disruption budget.",
)
LABELS = (
    "decision.before_publish", "decision.after_publish", "effect.before_act", "evict.before_evict",
    "evict.after_evict", "effect.after_act", "effect.after_settle",
)  # fmt: skip


class Crowded(Cluster):
    """``ends``: pods whose end the API server was asked for; they are gone when :meth:`went` says so."""

    def __init__(self):
        super().__init__()
        self.effectors[Evict.wire_type] = EvictEffector(self)
        self.ends, self.refuses = [], set()

    async def get(self, path):
        uid = path.rpartition("/")[2]
        if uid not in self.runner.replica.cluster_state.pods:
            raise NotFoundError()
        ends = {"deletionTimestamp": "2026-01-01T00:00:00Z"} if uid in self.ends else {}
        return {"metadata": {"uid": uid} | ends}

    async def evict(self, namespace, pod, *, uid):
        assert pod == uid
        if pod in self.refuses:
            raise PDB
        self.ends.append(pod)
        return {}

    async def full(self, *priorities, node="a", mode="on", preemption="on", **policy):
        """A node of 4 cpu, full of pods of these priorities: a0, a1, …"""
        await self.set_policy(SchedulingPolicy(preemption=preemption, pace=FAST, **policy), mode)
        await self.say(self.node(node))
        await self.fill(*priorities, node=node)

    async def fill(self, *priorities, node):
        cpu = f"{4000 // len(priorities)}m"
        await self.say(*(
            self.pod(f"{node}{number}", node, cpu=cpu, priority=priority)
            for number, priority in enumerate(priorities)
        ))  # fmt: skip

    async def went(self, *uids):
        await self.say(*map(self.gone, uids or tuple(self.ends)))

    def evictions(self):
        """(uid, beneficiary) of each eviction that was decided."""
        return [(one.key, one.beneficiary) for one in self.decisions(Evict)]

    def nominations(self):
        return {one.uid: one.node for one in self.state.scheduler.nominations}

    def said(self):
        """What passes said of nominations: (pod, node, names of victims)."""
        return [
            (one.uid, passed.nodes[one.node], [victim.name for victim in one.victims])
            for passed in self.facts(SchedulingPassed)
            for one in passed.nominated
        ]

    async def later(self, seconds):
        for _ in range(seconds // 10):
            await self.tick()
