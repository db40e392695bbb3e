"""A reactor for tests of the engine: on every tick it stops each pod whose name begins with ``idle``."""

from bus.clock import SECOND_US
from bus.events.clock import LEADER, ClockTicked
from bus.events.decisions import Cull, Decision, Restore, RestoreAsked, Target
from bus.events.pods import PodObserved, PodVanished
from bus.memory import MemoryTransport
from reactors.engine.contract import ProposedDecision, Reactor
from reactors.engine.policies import policy_changed
from reactors.engine.replica import Replica
from reactors.engine.runner import Runner
from reactors.engine.settings import Pace, ReactorPolicy
from tests.factories import CLUSTER, START_US, said

FAST = Pace(per_minute=1000, per_namespace=1000, per_node=1000)


class ToyPolicy(ReactorPolicy):
    prefix: str = "idle"
    fresh_seconds: int = 300


class ToyView:
    reads = (PodObserved, PodVanished, Cull, RestoreAsked, Restore)

    def __init__(self, state):
        self.pods = {}
        self.stopped = set()
        self.asked = []
        self.awake = set()

    def take(self, fact, event):
        if isinstance(fact, PodObserved):
            self.pods[fact.uid] = fact
            if fact.annotations:
                self.awake.add(fact.uid)
        elif isinstance(fact, PodVanished):
            self.pods.pop(fact.uid, None)
        elif isinstance(fact, Cull):
            self.stopped.add(fact.key)
        elif isinstance(fact, RestoreAsked):
            self.asked.append(fact.decision)
        elif isinstance(fact, Restore) and fact.key in self.asked:
            self.asked.remove(fact.key)


def decide(view, trigger, policy):
    expires_us = trigger.at_us + policy.fresh_seconds * SECOND_US
    found = [
        ProposedDecision(verb=Restore, key=one, target=Target("Pod", "ns", one, one), reason="asked",
              expires_us=expires_us)
        for one in view.asked
    ]  # fmt: skip
    for pod in view.pods.values():
        if pod.name.startswith(policy.prefix) and pod.uid not in view.stopped | view.awake:
            target = Target("Pod", pod.namespace, pod.name, pod.uid, pod.node or "")
            found.append(
                ProposedDecision(
                    verb=Cull, key=pod.uid, target=target, reason="idle", expires_us=expires_us
                )
            )
    return found


def overtaken(view, decision, policy):
    return "active" if decision.target.uid in view.awake else ""


def toy(version=1):
    return Reactor(
        name="toy", version=version, policy=ToyPolicy, state=ToyView, triggers=(ClockTicked,),
        settings=None, activity="toying", effects=None,
        decide=decide, managed=lambda view: len(view.pods), overtaken=overtaken,
    )  # fmt: skip


class Clock:
    """Stands until it is moved."""

    def __init__(self):
        self.us = START_US

    def now_us(self):
        return self.us

    def after(self, seconds):
        self.us += int(seconds * SECOND_US)


class Effector:
    """Counts what it did to each object; ``fails`` is raised instead, while it is set."""

    def __init__(self):
        self.done = []
        self.fails = None

    async def act(self, decision: Decision):
        if self.fails is not None:
            raise self.fails
        if decision.id not in self.done:
            self.done.append(decision.id)
        return "done", ""


class Scene:
    """One history in memory and one runner that reads it step by step."""

    def __init__(self, transport=None, clock=None, effector=None, reactor=None):
        self.transport = transport or MemoryTransport()
        self.clock = clock or Clock()
        self.effector = effector or Effector()
        self.reactor = reactor or toy()
        self.runner = self.new_runner(self.reactor)

    def new_runner(self, reactor):
        verbs = ("cull", "restore", "warn", "withdraw")
        effectors = {f"decision.{verb}": self.effector for verb in verbs}
        return Runner(Replica([reactor], CLUSTER), self.transport, self.clock, effectors)

    async def say(self, *events):
        flat = []
        for event in events:
            flat += event if isinstance(event, list) else [event]
        await self.transport.publish(flat)
        await self.read()

    async def read(self, runner=None):
        runner = runner or self.runner
        while runner.replica.sequence < (await self.transport.head()).last_sequence:
            for event in self.transport.events[runner.replica.sequence :]:
                await runner.take(event)

    def at(self):
        return (self.clock.us - START_US) / SECOND_US

    async def tick(self, after=10):
        self.clock.after(after)
        await self.say(ticked(self.at()))

    async def policy(self, mode="on", author="test", **fields):
        fact = policy_changed("toy", mode, ToyPolicy(**{"pace": FAST} | fields), author=author)
        await self.say(said(fact, key="toy", id=f"{fact.digest}/{self.at()}", at=self.at()))

    def decisions(self, verb=Cull):
        return [verb.read(e) for e in self.transport.events if e.type == verb.wire_type]


def ticked(at):
    return said(ClockTicked(), key=LEADER, id=f"tick/{at}", at=at)
