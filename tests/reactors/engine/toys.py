"""A reactor for tests of the engine: on every tick it stops each pod whose name begins with ``idle``."""

from bus.clock import SECOND_US
from bus.events.clock import LEADER, ClockTicked
from bus.events.decisions import Cull, Decision, Restore, RestoreAsked, Target
from bus.events.pods import PodObserved, PodVanished
from reactors.engine.contract import ProposedDecision, Reactor
from reactors.engine.settings import ReactorPolicy
from tests.factories import said
from tests.scenario import FAST, Scenario


class ToyPolicy(ReactorPolicy):
    prefix: str = "idle"
    fresh_seconds: int = 300


class ToyView:
    reads = (PodObserved, PodVanished, Cull, RestoreAsked, Restore)

    def __init__(self, state, quotas):
        self.pods = {}
        self.stopped = set()
        self.asked = []
        self.awake = set()

    def apply(self, fact, event):
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


class Scene(Scenario):
    """The toy, and an effector of every verb that it decides."""

    def __init__(self, transport=None, clock=None, effector=None):
        self.effector = effector or Effector()
        verbs = ("cull", "restore", "warn", "withdraw")
        effectors = {f"decision.{verb}": self.effector for verb in verbs}
        super().__init__(toy(), effectors, transport=transport, clock=clock)

    async def policy(self, mode="on", author="test", **fields):
        await self.set_policy(ToyPolicy(**{"pace": FAST} | fields), mode, author)


def ticked(at):
    return said(ClockTicked(), key=LEADER, id=f"tick/{at}", at=at)
