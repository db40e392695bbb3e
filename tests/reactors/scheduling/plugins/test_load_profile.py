"""A profile with LoadAware: pods go where there is load to spare, wait for measurements, and every choice is derived again."""

import json
from random import Random

import msgspec
import pytest

from bus.events.decisions import SchedulingPassed
from bus.events.nodes import NodeMetricObserved, PodUsed, Used
from bus.sources import node_usage
from bus.sources.catalogue import NODE_USAGE, SOURCES
from reactors.engine.verify import rederive
from reactors.scheduling.reactor import reactor
from reactors.scheduling.settings import SchedulingPolicy, SchedulingProfile
from tests import factories as f
from tests.bus.sources.records import POLICY as POLICY_OF_LABELS
from tests.bus.sources.records import record
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


def by(agent, weight=1):
    fields = {"LoadAware": {"measured_by": agent}}
    return SchedulingProfile(name=agent, weights={"LoadAware": weight}, fields=fields)


def test_what_measures_nodes_is_followed_and_nothing_else():
    follows = [
        SchedulingPolicy(profiles=several).follows
        for several in ((by("metrics-server"),), (by("koordinator"),), (by("metrics-server", 0),))
    ]

    assert follows == [{"NodeMetrics"}, {"NodeMetric"}, frozenset()]
    assert {"NodeMetrics", "NodeMetric"} <= {source.kind for source in SOURCES if source.on_demand}


def test_nodes_have_one_measurement():
    with pytest.raises(ValueError, match="the same in all profiles"):
        SchedulingPolicy(profiles=(by("metrics-server"), by("koordinator")))
    with pytest.raises(ValueError, match="measured_by"):
        SchedulingPolicy(profiles=(by("prometheus"),))


async def test_another_agent_measures_on_after_a_change_of_policy():
    at = await scene()
    await at.say(metric(at, "a", 99, 15), metric(at, "b", 99, 15), metric(at, "c", 99, 15))
    await at.set_policy(SchedulingPolicy(profiles=(by("metrics-server").model_copy(update={"name": "bursar"}),)))  # fmt: skip
    usage = {"metadata": {"name": "b"}, "timestamp": f.stamp(at.at()), "usage": {"cpu": "1"}}
    await at.say(translated(usage, at.at()))
    await at.say(pod(at, "p"))
    await at.tick(15)

    assert placed(at) == {"p": "b"}
    gone = json.loads(node_usage.gone("measured-b", f.us(at.at() + 1)))
    await at.say(translated(gone, at.at(), "DELETED"))
    assert "measured-b" not in at.runner.replica.cluster_state.loads


def translated(found, second, change="LISTED"):
    event = NODE_USAGE.translate(record(found, change), POLICY_OF_LABELS)
    return msgspec.structs.replace(event, time_us=f.us(second), cluster=f.CLUSTER)
