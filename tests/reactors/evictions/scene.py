"""A cluster in memory whose quotas were declared by the product's keeper, and a runner that evicts on its ticks."""

from contextlib import asynccontextmanager

from bus.clock import SECOND_US
from bus.errors import ClusterUnavailableError, NotFoundError
from bus.events.budgets import BudgetJudged
from bus.events.decisions import Evict
from bus.events.nodes import NodeObserved
from bus.events.priorities import PriorityClassObserved
from bus.events.quotas import Budget, Queue
from reactors.effectors.evict import EvictEffector
from reactors.engine.settings import Pace
from reactors.evictions.reactor import reactor
from reactors.evictions.settings import EvictionPolicy
from tests import factories as said
from tests.reactors.cluster import QUOTA, START_US, Cluster, job
from tests.scenario import Scenario

ELASTIC = "quota.scheduling.koordinator.sh/name"
CARD = "nvidia.com/gpu"
FAST = Pace(per_minute=1000, per_namespace=1000, per_node=1000, per_workload=1)
PDB = ClusterUnavailableError(
    status=429,
    message="Cannot evict pod as it would violate the pod's disruption budget. The disruption budget web needs 2 healthy pods",
)


class Evicting(Cluster):
    """``pods``: those that the API server has, by name; what is evicted vanishes from there and is said."""

    def __init__(self):
        super().__init__()
        self.pods = {}
        self.refuses = None
        #: Names of pods that a disruption budget keeps.
        self.protected = set()
        self.evicted = []
        self.deciding = Scenario(
            reactor, {Evict.wire_type: EvictEffector(self)},
            cluster=self.cluster, transport=self.transport, clock=self.clock,
        )  # fmt: skip

    @property
    def runner(self):
        return self.deciding.runner

    async def policy(self, mode="on", **fields):
        await self.deciding.set_policy(EvictionPolicy(**{"pace": FAST} | fields), mode)
        await self.settled()

    async def nodes(self, cards):
        node = NodeObserved(
            uid="n", name="n", resource_version=str(next(self._versions)),
            allocatable={CARD: str(cards), "cpu": "1000"},
        )  # fmt: skip
        await self.say(node, "n")

    async def see_paid(self, name, hard, exhaustion="GraceThenEvict"):
        """A quota whose every key has a budget."""
        await self.see_quota(
            name, hard, cash=dict.fromkeys(hard, 90), budget=Budget(exhaustion=exhaustion)
        )

    async def see_elastic(self, name, least, most, **fields):
        await self.see_quota(
            name, {}, kind="ElasticQuota", namespace="quotas", min={CARD: least},
            max={CARD: most}, **fields,
        )  # fmt: skip

    async def run_pod(
        self, name, *, quota="q", label=ELASTIC, priority=0, gpu=1, labels=None, **fields
    ):
        """A bound pod of its own."""
        version = next(self._versions)
        labels = {label: quota} | (labels or {})
        at = self.at()
        event = said.pod_observed(
            f"uid-{name}", version, at, cluster="c1", name=name, labels=labels, gpu=gpu,
            priority=priority, created=at, **fields,
        )  # fmt: skip
        self.pods[name] = f"uid-{name}"
        await self.transport.publish([event])

    async def judge(self, quota, key, phase, **fields):
        at_s = self.clock.us // SECOND_US
        fact = BudgetJudged(
            quota=quota, key=key, phase=phase, at_s=at_s, exhausted_s=at_s - 10,
            rule="GraceThenEvict", period_start_s=at_s - 100, based_on=1,
            **({"spent": 100, "limit": 90} | fields),
        )  # fmt: skip
        await self.say(fact, quota)

    async def tick(self, after=10):
        """Time goes on, the runner decides, and what was decided is done."""
        await self.settled()
        await self.deciding.tick(after)
        await self.deciding.work()
        await self.settled()

    # the API server

    async def get(self, path):
        name = path.rpartition("/")[2]
        if name not in self.pods:
            raise NotFoundError(message=name)
        return {"metadata": {"uid": self.pods[name]}}

    async def evict(self, namespace, pod, *, uid):
        if self.refuses is not None:
            raise self.refuses
        if pod in self.protected:
            raise PDB
        assert self.pods.pop(pod) == uid
        self.evicted.append(pod)
        at = self.at()
        version = next(self._versions)
        event = said.pod_vanished(uid, version, at, cluster="c1", name=pod, deletion=at)
        await self.transport.publish([event])
        return {}

    # what was said

    def decisions(self):
        return self.facts(Evict)


__all__ = ["CARD", "ELASTIC", "PDB", "QUOTA", "START_US", "Evicting"]


@asynccontextmanager
async def preempting():
    """``team`` may use 4 cards, and pods of its own, `p0` the least important, use all of them."""
    async with Evicting() as running:
        for name, value, policy in (
            ("low", -5, "PreemptLowerPriority"),
            ("high", 50, "PreemptLowerPriority"),
            ("polite", 60, "Never"),
        ):
            fact = PriorityClassObserved(
                uid=name, name=name, resource_version="1", value=value, preemption_policy=policy
            )
            await running.say(fact, name)
        await running.see_quota("team", {f"limits.{CARD}": 4}, queue=Queue(hold=True))
        await running.policy(preemption="on")
        for number in range(100):
            await running.run_pod(f"else-{number}", quota="nobody", gpu=0)
        for number in range(4):
            await running.run_pod(f"p{number}", quota="team", label=QUOTA, priority=number)
        await running.settled()
        yield running


async def ask(cluster, name, cards, priority="high"):
    """A Job of this priority class wants so many cards; each try has another uid."""
    made = job(name, 1)
    template = made["spec"]["template"]["spec"]
    template["containers"][0]["resources"]["limits"] = {CARD: str(cards)}
    template["priorityClassName"] = priority
    made["metadata"]["uid"] = f"{name}-{cluster.clock.us}"
    return (await cluster.review(made)).reason


async def overuse(cluster, pods=12):
    """``q`` borrowed, and ``other`` wants its own back."""
    for number in range(pods):
        await cluster.run_pod(f"p{number:02}", priority=number % 3)
        cluster.clock.after(1)
    for number in range(10):
        await cluster.run_pod(f"o{number}", quota="other")
