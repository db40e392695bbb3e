"""Pods in two quotas that borrow from each other, and one with a budget, lived under any policy of evictions.

A pod comes at its second and goes after its time, unless it was evicted; nobody makes it again. Times in seconds after the start.
"""

import msgspec

from bus.clock import SECOND_US
from reactors.lab.evictions import EvictionTrial, outcome
from tests.factories import pod_vanished
from tests.reactors.evictions.scene import CARD, ELASTIC, QUOTA, Evicting
from tests.simulation.loop import simulate

TICK, END = 10, 1_200


class Card(msgspec.Struct):
    """A pod of one card."""

    name: str
    at: int
    seconds: int
    quota: str
    priority: int = 0


class World:
    """One live run. ``fields`` of the policy; ``spent``: seconds at which the budget's grace is over, or renewed."""

    def __init__(self, cards, mode, fields, spent=()):
        self.cards, self.mode, self.fields, self.spent = cards, mode, fields, spent
        self.gone, self.events, self.held = {}, [], 0

    async def live(self):
        async with Evicting() as cluster:
            await cluster.nodes(12)
            await cluster.see_elastic("q", 6, 12)
            await cluster.see_elastic("other", 6, 12)
            await cluster.see_paid("team", {f"limits.{CARD}": 4})
            await cluster.policy(self.mode, **self.fields)
            self.begin_us = cluster.clock.us
            # Few may go of few: there are enough others for two at a time.
            for number in range(100):
                await cluster.run_pod(f"else-{number}", quota="nobody", gpu=0)
            for at in range(TICK, END + 1, TICK):
                cluster.clock.us = self.begin_us + (at - TICK) * SECOND_US
                await self.step(cluster, at - TICK)
                await cluster.tick(TICK)
                for name in cluster.evicted[len(self.gone) :]:
                    self.gone[name] = at
            self.events = cluster.transport.events
        for card in self.cards:
            end = min(card.at + card.seconds, END)
            self.held += max(self.gone.get(card.name, end) - card.at, 0) * 1_000
        return self

    async def step(self, cluster, at):
        for second, phase in self.spent:
            if at <= second < at + TICK:
                await cluster.judge("team", f"limits.{CARD}", phase)
        for card in self.cards:
            if at <= card.at < at + TICK:
                label = QUOTA if card.quota == "team" else ELASTIC
                await cluster.run_pod(
                    card.name, quota=card.quota, label=label, priority=card.priority
                )
            if at <= card.at + card.seconds < at + TICK and card.name in cluster.pods:
                uid, version = cluster.pods.pop(card.name), next(cluster._versions)
                end = pod_vanished(uid, version, cluster.at(), cluster="c1", name=card.name)
                await cluster.transport.publish([end])


def lived(cards, mode, fields, spent=()):
    return simulate(World(cards, mode, fields, spent).live())


def played(events, mode, policy, known=None):
    """What the lab makes of a history."""
    trial = EvictionTrial("c1", mode, policy, lambda uid: None, known)
    trial.play(events)
    return trial.end()


def of(events, mode, policy, by="namespace"):
    return outcome(played(events, mode, policy), by=by)


def cards(rng, count=24):
    found = []
    for number in range(count):
        quota = rng.choice(["q", "q", "other", "team"])
        at, seconds = rng.randrange(0, 700), rng.randrange(100, 900)
        found.append(Card(f"p{number:02}", at, seconds, quota, rng.randrange(3)))
    return found


def evictions(decisions, begin_us):
    """(name, second) of evictions."""
    return sorted((one.target.name, (one.at_us - begin_us) // SECOND_US) for one in decisions)
