"""Small clusters of notebooks whose users come and go whatever the policy is, run live under any policy.

So it is known what another policy would have done to the same people: the same world is run under it. Times in seconds after the
start. A pod that is stopped ends five seconds later; who comes back finds it stopped, and starts another pod.
"""

import itertools
import random

import msgspec

from bus.clock import SECOND_US
from bus.events.clock import LEADER, ClockTicked
from bus.events.decisions import Cull, EffectSettled
from bus.events.notebooks import Evidence, NotebookSampled
from reactors.culling.policy import CullingPolicy
from reactors.culling.reactor import reactor
from reactors.engine.policies import policy_changed
from reactors.engine.replica import Replica, decision_event
from tests.factories import (
    CLUSTER,
    owner,
    pod_observed,
    pod_vanished,
    said,
    us,
    workload_observed,
)

TICK = 60
LOOK = 120
#: Nothing but the interlocks' own limit.
FAST = {"pace": {"per_minute": 1000, "per_namespace": 1000, "per_node": 1000}}


def policy(**fields):
    return CullingPolicy.model_validate(
        {**FAST, "idle_seconds": 1_800, "warning_seconds": 300, "check_period_seconds": LOOK}
        | fields
    )


class Person:
    """Who uses one notebook in ``sessions``, and deletes it at ``leaves`` if it still runs then."""

    def __init__(self, name, namespace, sessions, leaves=None, cpu="2", gpu=1):
        self.name, self.namespace, self.sessions = name, namespace, sessions
        self.leaves, self.cpu, self.gpu = leaves, cpu, gpu

    def is_busy(self, at):
        return any(begin <= at < end for begin, end in self.sessions)

    def active(self, at):
        """The newest activity by ``at``."""
        return max((min(end, at) for begin, end in self.sessions if begin <= at), default=None)


class World:
    """One live run."""

    def __init__(self, people, policy, mode="on"):
        self.people, self.policy = people, policy
        self.replica = Replica([reactor], CLUSTER)
        self.events, self.at, self.numbers = [], 0, itertools.count(1)
        self.pods, self.ending, self.held, self.culls = {}, {}, {}, []
        fact = policy_changed("culling", mode, policy, author="test")
        self.say(said(fact, key="culling", id="policy", at=0))

    def say(self, *events):
        for event in events:
            event = msgspec.structs.replace(event, sequence=len(self.events) + 1)
            self.events.append(event)
            self.replica.apply(event)

    def run(self, until):
        for person in self.people:
            self.say(workload_observed(f"nb-{person.name}", at=0, kind="Notebook", name=person.name,
                                       namespace=person.namespace))  # fmt: skip
        for self.at in range(TICK, until + 1, TICK):
            self.users()
            if self.at % LOOK == 0:
                self.looks()
            self.tick()
        for uid in list(self.pods.values()):
            self.held[uid][1] = self.at
        return self

    def users(self):
        for person in self.people:
            if person.is_busy(self.at) and person.name not in self.pods:
                self.start(person)
            if person.leaves is not None and self.at - TICK < person.leaves <= self.at:
                if person.name in self.pods:
                    self.end(person, self.at)

    def start(self, person):
        uid = f"pod-{person.name}-{next(self.numbers)}"
        self.pods[person.name] = uid
        self.held[uid] = [self.at, None]
        controller = owner(f"nb-{person.name}", "Notebook", person.name)
        self.say(pod_observed(uid, 1, at=self.at, created=self.at, namespace=person.namespace,
                              name=f"{person.name}-0", owner=controller, cpu=person.cpu, gpu=person.gpu))  # fmt: skip

    def end(self, person, at):
        uid = self.pods.pop(person.name)
        self.held[uid][1] = at
        self.say(pod_vanished(uid, 9, at=at, created=self.held[uid][0], namespace=person.namespace,
                              name=f"{person.name}-0"))  # fmt: skip

    def looks(self):
        for person in self.people:
            uid = self.pods.get(person.name)
            if uid is None:
                continue
            active = person.active(self.at)
            evidence = Evidence(
                source="jupyter_kernels",
                busy=person.is_busy(self.at),
                active_us=us(max(active or 0, self.held[uid][0])),
            )
            fact = NotebookSampled(uid=uid, image="jupyter/base", evidence=(evidence,))
            self.say(said(fact, key=uid, id=f"{uid}/{self.at}", at=self.at))

    def tick(self):
        self.say(said(ClockTicked(), key=LEADER, id=f"tick/{self.at}", at=self.at))
        for decision in self.replica.decide(self.events[-1]):
            self.say(decision_event(decision, CLUSTER))
            if decision.is_shadow:
                continue
            result = "done"
            if isinstance(decision, Cull):
                person = next(p for p in self.people if self.pods.get(p.name) == decision.key)
                # The last look before a stop.
                result = "stale" if person.is_busy(self.at) else "done"
                if result == "done":
                    self.culls.append((person.name, self.at))
                    self.end(person, self.at + 5)
            settled = EffectSettled(decision=decision.id, reactor="culling", result=result)
            self.say(said(settled, key=decision.id, id=f"done/{decision.id}", at=self.at + 1))

    @property
    def hours(self):
        """(milli-core-, milli-GPU-seconds) that notebooks held."""
        cpu = gpu = 0
        of = {uid: p for p in self.people for uid in self.held if uid.startswith(f"pod-{p.name}-")}
        for uid, (begin, end) in self.held.items():
            cpu += (end - begin) * int(of[uid].cpu) * 1_000
            gpu += (end - begin) * of[uid].gpu * 1_000
        return cpu, gpu


def people(seed, until, *, count=4, leaves=0.2):
    """Users of a random world."""
    rng = random.Random(seed)
    found = []
    for number in range(count):
        sessions, at = [], rng.randrange(0, 1_200)
        while at < until:
            end = at + rng.randrange(60, 2_400)
            sessions.append((at, end))
            at = end + int(rng.expovariate(1 / 3_600)) + 60
        gone = None
        if rng.random() < leaves:
            last = rng.choice(sessions)
            sessions = [one for one in sessions if one[0] <= last[0]]
            gone = last[1] + rng.randrange(60, 3_600)
        found.append(Person(f"u{number}", f"ns{number % 2}", sessions, gone, str(rng.randrange(1, 9)),
                            rng.randrange(0, 3)))  # fmt: skip
    return found


def played(events, policy, known=None, rules=None):
    """What the lab makes of a history."""
    from reactors.lab.culling.trial import Lab

    more = {} if rules is None else {"rules": rules}
    lab = Lab(CLUSTER, [(policy, "on")], earlier=lambda uid: None, known=known, **more)
    lab.play(events)
    return lab.end()[0]


def seconds(us_):
    return (us_ - us(0)) // SECOND_US
