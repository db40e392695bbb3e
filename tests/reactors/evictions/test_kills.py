"""Killed at every label on the way of an eviction: nothing is evicted twice, nothing is forgotten, no namesake is touched."""

from collections import Counter

import pytest

from bus import crashpoints
from bus.errors import ConflictError, NotFoundError
from tests import factories as said
from tests.reactors.evictions.scene import Evicting

pytestmark = pytest.mark.simulated

LABELS = [one for one in crashpoints.LABELS if one.startswith(("decision.", "effect.", "evict."))]
VICTIMS = {"p09", "p06"}


class Killed(BaseException):
    """Ends a process as a signal does: nothing behind it runs."""


class Watched(Evicting):
    """Its API server holds to the uid that an eviction names; ``asked``: every one, done or refused, as (name, uid)."""

    def __init__(self):
        super().__init__()
        self.asked = []

    async def evict(self, namespace, pod, *, uid):
        self.asked.append((pod, uid))
        if pod not in self.pods:
            raise NotFoundError(message=pod)
        if self.pods[pod] != uid:
            raise ConflictError(reason="Conflict", message=f"the UID in the precondition ({uid})")
        del self.pods[pod]
        self.evicted.append((pod, uid))
        at = (self.clock.us - said.START_US) / 1_000_000
        version = next(self._versions)
        gone = said.pod_vanished(uid, version, at, cluster="c1", name=pod, deletion=at)
        await self.transport.publish([gone])
        return {}


async def overused():
    """``q`` has two cards more than its share: ``VICTIMS`` are to go on the fourth tick."""
    cluster = Watched()
    await cluster.__aenter__()
    await cluster.nodes(20)
    for name in ("q", "other"):
        await cluster.see_elastic(name, 10, 20)
    await cluster.policy(monitor_all_quotas=True, delay_evict_seconds=20)
    for number in range(100):
        await cluster.run_pod(f"else-{number}", quota="nobody", gpu=0)
    for number in range(12):
        await cluster.run_pod(f"p{number:02}", priority=number % 3)
        cluster.clock.after(1)
    for number in range(10):
        await cluster.run_pod(f"o{number}", quota="other")
    return cluster


async def killed(cluster, label, times, meanwhile=lambda: None):
    """Four ticks, with a death at the ``times``-th sight of a label; a successor goes on from the history alone."""
    left = [times]

    def hook(reached):
        left[0] -= reached == label
        if reached == label and not left[0]:
            crashpoints.install(None)
            raise Killed(label)

    crashpoints.install(hook)
    try:
        with pytest.raises(Killed):
            for _ in range(4):
                await cluster.tick()
    finally:
        crashpoints.install(None)
    meanwhile()
    cluster.deciding.runner = cluster.deciding.new_runner(cluster.deciding.reactor)
    await cluster.deciding.read()
    for _ in range(6):
        await cluster.tick()


#: Both victims are decided on at once, and act one after the other.
POINTS = [(label, 1) for label in LABELS] + [
    (label, 2) for label in LABELS if not label.startswith("decision.")
]


@pytest.mark.parametrize(("label", "times"), POINTS)
async def test_nothing_is_evicted_twice_and_nothing_forgotten_when_killed(label, times):
    cluster = await overused()
    await killed(cluster, label, times)
    decided = Counter(one.target.name for one in cluster.decisions())
    outcomes = cluster.outcomes()
    await cluster.__aexit__(None, None, None)

    assert Counter((name, f"uid-{name}") for name in VICTIMS) == Counter(cluster.evicted)
    assert Counter(VICTIMS) == decided
    assert 2 == len(outcomes)
    assert {"done", "gone"} >= {result for result, _ in outcomes}


@pytest.mark.parametrize("label", ["effect.before_act", "evict.before_evict", "evict.after_evict"])
async def test_a_namesake_made_while_nobody_ran_is_never_evicted(label):
    cluster = await overused()

    def made_anew():
        """By a StatefulSet, say; nobody has seen the new ones yet."""
        for name in VICTIMS:
            cluster.pods[name] = f"new-{name}"

    await killed(cluster, label, 1, made_anew)
    outcomes = cluster.outcomes()
    await cluster.__aexit__(None, None, None)

    assert {name: f"new-{name}" for name in VICTIMS}.items() <= cluster.pods.items()
    assert {"gone"} == {result for result, _ in outcomes}


async def test_a_namesake_made_between_look_and_eviction_is_kept_by_the_condition_on_the_uid():
    cluster = await overused()

    def hook(reached):
        if reached == "evict.before_evict":
            for name in VICTIMS & cluster.pods.keys():
                cluster.pods[name] = f"new-{name}"

    crashpoints.install(hook)
    try:
        for _ in range(6):
            await cluster.tick()
            cluster.runner._again_at.clear()
    finally:
        crashpoints.install(None)
    outcomes = cluster.outcomes()
    await cluster.__aexit__(None, None, None)

    assert [] == cluster.evicted
    assert cluster.asked
    assert {uid for _, uid in cluster.asked} <= {f"uid-{name}" for name in VICTIMS}
    assert {"gone"} == {result for result, _ in outcomes}
