"""A profile with LoadAware: pods go where there is load to spare, wait for measurements, and every choice is derived again."""

from random import Random

import msgspec

from bus.events.decisions import SchedulingPassed
from bus.events.nodes import NodeMetricObserved, PodUsed, Used
from reactors.engine.verify import rederive
from reactors.scheduling.reactor import reactor
from reactors.scheduling.settings import SchedulingPolicy, SchedulingProfile
from tests import factories as f
from tests.reactors.engine.restoring import folded, known
from tests.scenario import Scenario

OFFERED = {"cpu": "16", "memory": "64Gi", "pods": "110"}
POLICY = SchedulingPolicy(profiles=(SchedulingProfile(weights={"LoadAware": 10}),))


def pod(at, name):
    return f.pod_observed(
        name, 1, at.at(), node=None, resources=f.requesting({"cpu": "1"}),
        constraints=msgspec.Raw(msgspec.json.encode({"schedulerName": "bursar"})),
    )  # fmt: skip


def metric(at, node, version, cpu, age_s=0):
    fact = NodeMetricObserved(
        uid=f"m-{node}", name=node, resource_version=str(version), updated=f.stamp(at.at() - age_s),
        used=Used(str(cpu), "1Gi"), pods=(PodUsed("ns", "p0", "500m", "1Gi"),),
    )  # fmt: skip
    return f.said(fact, key=node, id=f"metric/{node}/{version}", at=at.at())


async def scene():
    at = Scenario(reactor, {})
    await at.say(
        *(f.node_observed(name, 1, at.at(), uid=name, allocatable=OFFERED) for name in "abc")
    )
    await at.set_policy(POLICY)
    return at


def placed(at):
    return {
        one.name: passed.nodes[one.node]
        for passed in at.facts(SchedulingPassed)
        for one in passed.pods
        if one.node >= 0
    }


async def test_a_pod_that_waits_for_load_is_placed_when_a_measurement_comes():
    at = await scene()
    await at.say(*(metric(at, name, 1, 15) for name in "abc"), pod(at, "p"))
    await at.tick(15)
    before = placed(at)
    await at.say(metric(at, "b", 2, 2))
    await at.tick(15)

    assert (before, placed(at)) == ({}, {"p": "b"})


async def test_every_choice_by_load_is_derived_again_also_from_snapshots():
    at, dice = await scene(), Random(11)
    for step in range(2, 26):
        await at.say(pod(at, f"p{step}"))
        await at.say(metric(at, dice.choice("abc"), step, dice.randrange(12), dice.randrange(200)))
        await at.tick(dice.choice((5, 60)))
    events = at.transport.events
    cuts, never = dice.sample(range(1, len(events)), 6), {"decides_on": lambda _: False}
    replica = lambda: at.new_runner(reactor).replica  # noqa: E731
    found = rederive(lambda: iter(events), [reactor], at.cluster)

    assert known(folded(replica(), events, [], **never)) == known(
        folded(replica(), events, [], cuts=cuts, **never)
    )
    assert (found.mismatches, found.same) == ((), len(at.facts(SchedulingPassed)))
    assert len(placed(at)) > 10
