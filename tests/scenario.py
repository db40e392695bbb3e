"""One deterministic world for the tests of reactors: facts in, decisions and outcomes out, and a clock that is told the time.

The history lies in memory. A runner reads when it is told to. Tasks that follow the history run in a loop that never waits: where
nothing is left to do now, its time jumps to the next timer. Tests have it by the mark `simulated`, others by `simulate`.
"""

import asyncio

from bus.clock import SECOND_US
from bus.events.clock import LEADER, ClockTicked
from bus.events.decisions import Cull, EffectSettled
from bus.memory import MemoryTransport
from reactors.engine.policies import policy_changed
from reactors.engine.replica import Replica
from reactors.engine.runner import Runner
from reactors.engine.settings import Pace
from tests.factories import CLUSTER, START_US, said

#: Limits that no test meets by accident.
FAST = Pace(per_minute=1000, per_namespace=1000, per_node=1000)

#: Longer than any wait of the product that something is behind.
SETTLED_SECONDS = 0.3


async def settled():
    """Until nothing is left to do, timers of the product's own included."""
    await asyncio.sleep(SETTLED_SECONDS)


class Clock:
    """Stands until it is moved."""

    def __init__(self, us=START_US):
        self.us = us

    def now_us(self):
        return self.us

    def after(self, seconds):
        self.us += int(seconds * SECOND_US)


class History:
    """What was said in a cluster, and what time it is."""

    def __init__(self, cluster=CLUSTER, transport=None, clock=None):
        self.cluster = cluster
        self.transport = transport or MemoryTransport()
        self.clock = clock or Clock()

    def at(self):
        """Seconds after the start of the factories."""
        return (self.clock.us - START_US) / SECOND_US

    async def publish(self, *events):
        """Publish events; lists among them are laid flat."""
        flat = []
        for event in events:
            flat += event if isinstance(event, list) else [event]
        await self.transport.publish(flat)

    def facts(self, kind):
        """Every fact of a kind, in order."""
        return [kind.read(e) for e in self.transport.events if e.type == kind.wire_type]

    def outcomes(self):
        """(result, message) of every effect that was settled."""
        return [(fact.result, fact.message) for fact in self.facts(EffectSettled)]

    def ticked(self):
        """A tick of the clock."""
        at = self.at()
        return said(ClockTicked(), key=LEADER, id=f"tick/{at}", at=at, cluster=self.cluster)


class Scenario(History):
    """A history, and one reactor whose runner reads it step by step."""

    def __init__(self, reactor, effectors, **history):
        super().__init__(**history)
        self.reactor, self.effectors = reactor, effectors
        self.runner = self.new_runner(reactor)

    def decisions(self, verb=Cull):
        """Every decision of a verb."""
        return self.facts(verb)

    def new_runner(self, reactor):
        """A process that starts now."""
        return Runner(Replica([reactor], self.cluster), self.transport, self.clock, self.effectors)

    async def read(self, runner=None):
        """Let the runner read to the end of the history."""
        runner = runner or self.runner
        while runner.replica.sequence < (await self.transport.head()).last_sequence:
            for event in self.transport.events[runner.replica.sequence :]:
                await runner.apply(event)
            await runner.conclude()

    async def say(self, *events):
        """Publish events, and let the runner read them."""
        await self.publish(*events)
        await self.read()

    async def tick(self, after=10):
        """Time goes on, and the reactor decides."""
        self.clock.after(after)
        await self.say(self.ticked())

    async def work(self):
        """What was decided is done."""
        await self.runner.work()
        await self.read()

    async def set_policy(self, policy, mode="on", author="test"):
        """Publish the policy of the reactor."""
        fact = policy_changed(self.reactor.name, mode, policy, author=author)
        at = self.at()
        await self.say(
            said(fact, key=self.reactor.name, id=f"{fact.digest}/{at}", at=at, cluster=self.cluster)
        )
