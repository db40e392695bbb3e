"""Small clusters whose pods come whatever the scheduler's policy is, lived under any policy by the reactor that runs live.

So it is known where and when another policy would have placed the same pods: the same world is run under it. Times in seconds
after the start. A pod is observed on its node one second after it was decided.
"""

import heapq
import itertools
import random

import msgspec

from bus.clock import SECOND_US
from bus.events import VOCABULARY
from bus.events.clock import LEADER, ClockTicked
from bus.events.decisions import EffectSettled, SchedulingPassed
from bus.events.vocabulary import read
from reactors.engine.policies import policy_changed
from reactors.engine.replica import Replica, decision_event
from reactors.lab.placements import RULES, PlacementLab, PodLives, outcome
from reactors.scheduling.reactor import reactor
from reactors.scheduling.settings import SchedulingPolicy
from tests.factories import CLUSTER, node_observed, owner, pod_observed, pod_vanished, said, us

TICK = 10
#: So long it takes until something that happened is read and decided on.
READ = 0.05
OURS = msgspec.Raw(b'{"schedulerName":"bursar"}')
FAST = {"pace": {"per_minute": 1000, "per_namespace": 1000, "per_node": 1000}}
#: Scores that pack pods onto few nodes, and those that spread them.
PACKS = {"NodeResourcesFit": {"strategy": "MostAllocated"}}


def policy(fields=None, **more):
    profile = {"name": "bursar", "fields": fields or {}}
    return SchedulingPolicy.model_validate({**FAST, "profiles": [profile], **more})


class Job(msgspec.Struct):
    """A pod that comes at a second. It runs for so long, or somebody ends it at a second (``until``) wherever it is by then."""

    name: str
    at: float
    cpu: int
    gpu: int = 0
    runs: float = 0
    until: float = 0
    priority: int = 0
    namespace: str = "ns"


class World:
    """One live run of nodes (name to cores, cards)."""

    def __init__(self, nodes, jobs, policy, lag=1):
        self.nodes, self.jobs, self.policy, self.lag = nodes, {j.name: j for j in jobs}, policy, lag
        self.replica = Replica([reactor], CLUSTER)
        self.events, self.at, self.moments, self.turn = [], 0, [], itertools.count()
        self.version, self.is_asked = itertools.count(1), False
        #: (second, node) by pod, of those that were bound; the second at which each ended.
        self.bound, self.ended, self.lost = {}, {}, {}

    def say(self, *events):
        for event in events:
            event = msgspec.structs.replace(event, sequence=len(self.events) + 1)
            self.events.append(event)
            self.replica.apply(event)

    def later(self, at, what, *rest):
        heapq.heappush(self.moments, (at, next(self.turn), what, rest))

    def run(self, until):
        fact = policy_changed("scheduling", "on", self.policy, author="test")
        self.say(said(fact, key="scheduling", id="policy", at=0))
        for name, (cores, cards) in self.nodes.items():
            self.node(name, cores, cards)
        for job in self.jobs.values():
            self.later(job.at, self.come, job.name)
            if job.until:
                self.later(job.until, self.end, job.name)
        for at in range(TICK, until + 1, TICK):
            self.later(at, self.tick)
        while self.moments and self.moments[0][0] <= until:
            self.at, _, what, rest = heapq.heappop(self.moments)
            what(*rest)
            if what != self.place and not self.is_asked:
                self.is_asked = True
                self.later(self.at + READ, self.place)
        return self

    def node(self, name, cores, cards):
        allocatable = {"cpu": str(cores), "memory": "64Gi", "pods": "110"}
        if cards:
            allocatable["nvidia.com/gpu"] = str(cards)
        self.say(node_observed(name, next(self.version), at=self.at, allocatable=allocatable))

    def pod(self, name, node=None, **fields):
        job = self.jobs[name]
        return pod_observed(
            name, next(self.version), at=self.at, node=node, namespace=job.namespace, created=job.at, cpu=str(job.cpu),
            gpu=job.gpu, constraints=OURS, priority=job.priority, owner=owner(f"job-{name}", "Job"), **fields,
        )  # fmt: skip

    def come(self, name):
        self.say(self.pod(name))

    def bind(self, name, node):
        if name not in self.ended:
            self.say(self.pod(name, node, scheduled=self.at))
            self.bound[name] = (self.at, node)
            if self.jobs[name].runs:
                self.later(self.at + self.jobs[name].runs, self.finish, name)

    def finish(self, name):
        if name not in self.ended:
            at, node = self.bound[name]
            self.ended[name] = self.at
            self.say(self.pod(name, node, scheduled=at, phase="Succeeded"))

    def end(self, name):
        if name not in self.ended:
            self.ended[name] = self.at
            node = self.bound[name][1] if name in self.bound else None
            self.say(pod_vanished(name, next(self.version), at=self.at, node=node))

    def tick(self):
        self.say(said(ClockTicked(), key=LEADER, id=f"tick/{self.at}", at=self.at))
        self.decide()

    def decide(self):
        for decision in self.replica.decide(self.events[-1]):
            self.say(decision_event(decision, CLUSTER))
            settled = EffectSettled(decision=decision.id, reactor="scheduling", result="done")
            self.say(said(settled, key=decision.id, id=f"done/{decision.id}", at=self.at))
            self.lost[decision.key] = self.at
            self.end(decision.key)

    def place(self):
        self.is_asked = False
        while made := self.replica.concluded():
            for passed in itertools.chain.from_iterable(made.values()):
                self.say(msgspec.structs.replace(passed, time_us=us(self.at)))
                fact = SchedulingPassed.read(passed)
                for pod in fact.pods:
                    if pod.node >= 0:
                        self.later(self.at + self.lag, self.bind, pod.uid, fact.nodes[pod.node])
                self.decide()

    @property
    def starts(self):
        return {name: at for name, (at, _) in self.bound.items()}

    @property
    def waited(self):
        """Core-seconds that pods waited."""
        total = 0
        for name, job in self.jobs.items():
            until = self.starts.get(name) or self.ended.get(name) or self.at
            total += max(int(until) - int(job.at), 0) * job.cpu * 1_000
        return total

    @property
    def node_seconds(self):
        found = {}
        for name, (at, node) in self.bound.items():
            found.setdefault(node, set()).update(range(int(at), int(self.ended.get(name, self.at))))
        return sum(map(len, found.values()))


def played(events, *policies, rules=RULES, known=None, begin=0):
    """What the lab makes of a history: of each policy what each rule made, and the lives on record."""
    lives = PodLives(us(begin))
    for event in events:
        lives.apply(read(event, VOCABULARY), event)
    lab = PlacementLab(CLUSTER, policies, lives, known=known, rules=rules)
    lab.play(events)
    return lab.end(), lives


def of(events, tried, by="namespace"):
    found, lives = played(events, tried)
    return outcome(found[0], lives.of.values(), by=by)


def jobs(rng, *, count=30, span=2_000, ends=0.3):
    """Pods of a random world."""
    found = []
    for number in range(count):
        job = Job(f"p{number}", rng.uniform(5, span), rng.randrange(1, 8), namespace=f"ns{number % 2}")  # fmt: skip
        if rng.random() < ends:
            job.until = job.at + rng.uniform(60, 1_500)
        else:
            job.runs = rng.uniform(30, 1_200)
        found.append(job)
    return found


def nodes(rng):
    """Of different sizes: which of equal nodes is taken is drawn by a number of the history, which no two have alike."""
    sizes = rng.sample(range(6, 20), rng.randrange(2, 5))
    return {f"n{number}": (cores, 0) for number, cores in enumerate(sizes)}


def seconds(us_):
    return (us_ - us(0)) // SECOND_US


def world(seed, policy, until=4_000, **fields):
    rng = random.Random(seed)
    return World(nodes(rng), jobs(rng, **fields), policy).run(until)
