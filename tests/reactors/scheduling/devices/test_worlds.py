"""Parts of cards in any world, by brute force: together never more than the card, and never on one that is not healthy.

Binds are refused or seen late, pods and nodes go and nodes come back with other cards, cards fall ill, another scheduler gives
cards away, tenants write annotations, and scheduling is switched off and on.
"""

import json
from random import Random

import msgspec
import pytest

from bus.events.decisions import BindSettled, FailedBind, SchedulingPassed
from bus.events.devices import ALLOCATED
from reactors.scheduling.reactor import reactor
from reactors.scheduling.settings import SchedulingPolicy, SchedulingProfile
from tests import factories as f
from tests.reactors.scheduling.plugins.sharing import GIB, K, asking, cards, device_object, gpu
from tests.scenario import Scenario
from tests.thorough import tries

OURS = msgspec.Raw(msgspec.json.encode({"schedulerName": "bursar"}))
SIZE = 16


class World:
    """A cluster as it really is: which pod lies on which cards of which node."""

    def __init__(self, seed):
        self.dice, self.at = Random(seed), Scenario(reactor, {})
        self.policy = SchedulingPolicy(profiles=(SchedulingProfile(weights={"DeviceShare": 5}),))
        self.version = 10
        #: Node to its uid, and to the health of its cards.
        self.uids, self.health = {}, {}
        #: Pod to what it requests: (hundredths of core, bytes, cards).
        self.asks = {}
        #: Pod to (uid of its node, cards), of those that a pass or another scheduler placed; and those that are bound.
        self.on, self.bound = {}, set()
        self.seen = 0

    def next(self):
        self.version += 1
        return self.version

    async def node(self, name):
        """A node comes, or comes back as another one."""
        count = self.dice.randrange(1, 4)
        if name in self.uids:
            await self.at.say(f.node_vanished(name, self.next(), self.at.at(), uid=self.uids[name]))
        self.uids[name], self.health[name] = f"{name}-{self.next()}", [True] * count
        offered = cards(
            count, **{f"{K}{one}": str(100 * count) for one in ("gpu", "gpu-memory-ratio")}
        )
        offered |= {f"{K}gpu.shared": "100"}
        await self.at.say(
            f.node_observed(
                name, self.next(), self.at.at(), uid=self.uids[name], allocatable=offered
            )
        )
        await self.devices(name)

    async def devices(self, name):
        there = [gpu(n, gib=SIZE, is_healthy=one) for n, one in enumerate(self.health[name])]
        await self.at.say(device_object(name, *there, version=self.next(), at=self.at.at()))

    async def falls_ill(self, name):
        self.health[name] = [self.dice.random() < 0.8 for _ in self.health[name]]
        await self.devices(name)

    def pod(self, uid, node=None, texts=None):
        core, memory, count = self.asks[uid]
        wanted = {"gpu_core": core * count, "gpu_memory": memory * count}
        wanted |= {"gpu.shared": count} if count > 1 else {}
        return f.pod_observed(
            uid, self.next(), self.at.at(), node=node, constraints=OURS, card_texts=texts or {}, **asking(**wanted)
        )  # fmt: skip

    async def arrives(self):
        uid = f"p{self.next()}"
        part = self.dice.randrange(1, 101), self.dice.randrange(1, SIZE * GIB)
        self.asks[uid] = (*part, self.dice.choice((1, 1, 2)))
        await self.at.say(self.pod(uid, texts=self.claim()))

    def claim(self):
        """What a tenant may write."""
        minors = [self.dice.randrange(5) for _ in range(self.dice.randrange(3))]
        said = json.dumps({"gpu": [{"minor": one} for one in minors]})
        return self.dice.choice(({}, {}, {ALLOCATED: said}, {ALLOCATED: said[:-2]}))

    async def another_scheduler(self):
        """It gives a pod cards that are free, says so, and knows what we placed."""
        name, uid = self.dice.choice(sorted(self.uids)), f"o{self.next()}"
        core, memory = self.dice.randrange(1, 101), self.dice.randrange(1, SIZE * GIB)
        used = self.used()
        for minor, is_healthy in enumerate(self.health[name]):
            held = used.get((self.uids[name], minor), (0, 0))
            if is_healthy and held[0] + core <= 100 and held[1] + memory <= SIZE * GIB:
                self.asks[uid], self.on[uid] = (core, memory, 1), (self.uids[name], (minor,))
                self.bound.add(uid)
                texts = {ALLOCATED: json.dumps({"gpu": [{"minor": minor}]})}
                await self.at.say(self.pod(uid, name, texts))
                return

    async def binds(self):
        """What was placed is seen on its node, or was refused."""
        for uid in sorted(self.on.keys() - self.bound):
            scheduler = self.at.runner.replica.states["scheduling"].scheduler
            found = scheduler.assumed.get(uid) if scheduler else None
            if found is None or self.dice.random() < 0.4:
                continue
            if (
                self.at.runner.replica.states["scheduling"].overtaken(found)
                or self.dice.random() < 0.3
            ):
                failed = FailedBind(uid, found.passed, "refused", "", found.decision)
                fact = BindSettled(failed=(failed,))
                self.on.pop(uid)
                await self.at.say(f.said(fact, key="bursar", id=f"settled/{self.next()}", at=self.at.at()))  # fmt: skip
            else:
                self.bound.add(uid)
                await self.at.say(self.pod(uid, found.node, self.claim()))
            self.follow()

    async def goes(self):
        if self.on:
            uid = self.dice.choice(sorted(self.on))
            self.on.pop(uid)
            await self.at.say(f.pod_vanished(uid, self.next(), self.at.at()))

    async def rests(self):
        """Nothing is outstanding, and scheduling is off for a while."""
        if not self.on.keys() - self.bound:
            for mode in ("off", "on"):
                await self.at.tick(5)
                await self.at.set_policy(self.policy, mode=mode)
                self.follow()

    def follow(self):
        """Note what passes placed since, and what nodes that went took along."""
        passes = self.at.facts(SchedulingPassed)
        state = self.at.runner.replica.states["scheduling"]
        for passed in passes[self.seen :]:
            for one in passed.pods:
                found = state.scheduler.assumed.get(one.uid) if state.scheduler else None
                if one.node >= 0 and found is not None and one.uid not in self.bound:
                    name = passed.nodes[one.node]
                    self.on[one.uid] = (self.uids[name], one.cards)
                    assert len(set(one.cards)) == self.asks[one.uid][2]
                    assert all(self.health[name][card] for card in one.cards)
        self.seen = len(passes)
        for uid, (node, _) in list(self.on.items()):
            if node not in self.uids.values() and uid not in self.bound:
                self.on.pop(uid)

    def used(self):
        found = {}
        for uid, (node, minors) in self.on.items():
            core, memory, _ = self.asks[uid]
            for minor in minors:
                held = found.get((node, minor), (0, 0))
                found[node, minor] = (held[0] + core, held[1] + memory)
        return found


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(tries(6, 60)))
async def test_parts_of_a_card_are_never_more_than_the_card(seed):
    world = World(seed)
    await world.node("a")
    await world.node("b")
    await world.at.set_policy(world.policy)
    for _ in range(60):
        does = world.dice.choices(
            (world.arrives, world.binds, world.goes, world.another_scheduler, world.rests,
             lambda: world.falls_ill(world.dice.choice("ab")), lambda: world.node(world.dice.choice("ab"))),
            (8, 5, 3, 2, 1, 1, 1),
        )[0]  # fmt: skip
        await does()
        world.follow()
        for core, memory in world.used().values():
            assert core <= 100 and memory <= SIZE * GIB
        await world.at.tick(2)
        world.follow()
    assert len(world.asks) > 10
