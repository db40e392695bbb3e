"""NodeResourcesFit and NodeResourcesBalancedAllocation: single cases, and random worlds against the oracle."""

import pytest

from bus.events.devices import DeviceClassObserved
from projections.devices.demand import IMPLICIT
from reactors.scheduling.framework.contract import Code, Cycle
from reactors.scheduling.framework.explaining import explained
from reactors.scheduling.framework.runner import Framework
from reactors.scheduling.plugins.balanced_allocation import NodeResourcesBalancedAllocation
from reactors.scheduling.plugins.catalogue import default_profile
from reactors.scheduling.plugins.resources_fit import (
    NodeResourcesFit,
    Point,
    ScoredResource,
    by_class,
)
from reactors.scheduling.settings import SchedulingPolicy, SchedulingProfile
from tests import factories as f
from tests.reactors.scheduling import oracle
from tests.reactors.scheduling.worlds import ROOMY, World, asked, random_world, reasons, scores

SEEDS = range(25)
THREE = (ScoredResource("cpu", 2), ScoredResource("memory"), ScoredResource("nvidia.com/gpu", 5))
SHAPES = (((0, 0), (100, 10)), ((0, 10), (100, 0)), ((10, 3), (40, 9), (70, 2)))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_node_is_refused_for_what_the_oracle_says(seed):
    world, random = random_world(seed)
    cycle = world.cycle(**asked(random))

    expected = {one.name: oracle.fit_reasons(cycle.pod, one) for one in oracle.nodes(world.state)}

    assert {name: why for name, why in expected.items() if why} == reasons(
        NodeResourcesFit(), cycle
    )


@pytest.mark.parametrize(
    "strategy", ["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"]
)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_node_is_scored_as_the_oracle_says(seed, strategy):
    world, random = random_world(seed)
    cycle, shape = world.cycle(**asked(random)), random.choice(SHAPES)
    plugin = NodeResourcesFit(strategy, THREE, tuple(Point(*one) for one in shape))
    weights = {one.name: one.weight for one in THREE}

    expected = {
        one.name: oracle.fit_score(cycle.pod, one, strategy, weights, shape)
        for one in oracle.nodes(world.state)
    }

    assert expected == scores(plugin, cycle)


@pytest.mark.parametrize("resources", [THREE[:2], THREE], ids=["two", "three"])
@pytest.mark.parametrize("seed", SEEDS)
def test_balance_is_scored_as_the_oracle_says(seed, resources):
    world, random = random_world(seed)
    cycle = world.cycle(**asked(random))
    names = [one.name for one in resources]

    expected = {
        one.name: oracle.balanced_score(cycle.pod, one, names) for one in oracle.nodes(world.state)
    }

    assert expected == scores(NodeResourcesBalancedAllocation(resources), cycle)


def test_a_pod_that_requests_nothing_changes_no_balance():
    plugin, world = NodeResourcesBalancedAllocation(), World().node("a")

    assert plugin.pre_score(world.cycle(cpu="0", memory="0"), slice(None)).code is Code.SKIP
    assert plugin.pre_score(world.cycle("q"), slice(None)) is None


def test_a_node_that_names_no_number_of_pods_takes_any():
    world = World().node("a", allocatable={"cpu": "1"})

    assert reasons(NodeResourcesFit(), world.cycle(cpu="1", memory="0")) == {}


def test_ignored_resources_are_not_looked_at():
    plugin = NodeResourcesFit(ignored=frozenset({"nvidia.com/gpu"}))

    assert reasons(plugin, World().node("a").cycle(gpu=1)) == {}


def test_an_absurd_request_fits_nowhere_and_overflows_nothing():
    cycle = World().node("a").cycle(cpu="9" * 15, memory="1")

    assert reasons(NodeResourcesFit(), cycle) == {"a": {"Insufficient cpu"}}


def test_the_remedy_names_what_the_node_has_left():
    world = World().node("a", allocatable={"cpu": "4", "memory": "8Gi"})
    world.pod("held", "a", cpu="2500m", memory="1Gi")
    cycle = world.cycle(cpu="2", memory="8Gi")

    full = world.cycle("q", cpu="2", memory="1Gi", gpu=1)

    assert (
        NodeResourcesFit().remedy(full, 0)
        == "request 1500m of cpu, not 2 and free 1 of nvidia.com/gpu"
    )
    assert NodeResourcesFit().remedy(cycle, 0) == (
        "request 1500m of cpu, not 2 and request 7Gi of memory, not 8Gi"
    )


def served(world, name="gpu.example.com", resource="example.com/gpu", version=1):
    """A DeviceClass whose devices serve an extended resource."""
    fact = DeviceClassObserved(
        uid=name, name=name, resource_version=str(version), extended_name=resource
    )
    world.see(f.said(fact, key=name, id=f"class/{name}/{version}", at=version))


@pytest.mark.parametrize(
    ("resource", "name"),
    [("example.com/gpu", "gpu.example.com"), (f"{IMPLICIT}fast", "fast")],
)
def test_what_a_device_class_serves_is_never_insufficient(resource, name):
    """Devices of a class take a claim, which kube-scheduler makes: freeing some on the node would not help."""
    world = World().node("a").node("b", allocatable=ROOMY | {resource: "0"})
    served(world)
    framework = Framework(default_profile("bursar"), world.context)
    pod = world.pod("p", resources=f.requesting({"cpu": "1", resource: "1"}))
    found = explained(framework, pod, 1)

    assert found.refused == {"NodeResourcesFit": {by_class(resource, name): 2}}
    assert found.changes == [
        f"let the pod name kube-scheduler, which allocates devices of DeviceClass {name} (node a)"
    ]
    assert found.preemption.node == ""


def test_a_node_with_a_device_plugin_gives_what_a_class_serves_elsewhere():
    """As kube-scheduler has it; a plugin's node that is full lacks the resource as before."""
    world = World().node("a").node("b", allocatable=ROOMY | {"example.com/gpu": "1"})
    served(world)
    framework = Framework(default_profile("bursar"), world.context)
    asks = {"resources": f.requesting({"cpu": "1", "example.com/gpu": "1"})}
    first = explained(framework, world.pod("p", **asks), 1)
    world.pod("held", "b", **asks)
    second = explained(framework, world.pod("q", **asks), 1)

    assert first.node == "b"
    assert second.refused["NodeResourcesFit"] == {
        by_class("example.com/gpu", "gpu.example.com"): 1, "Insufficient example.com/gpu": 1,
    }  # fmt: skip


def test_a_class_that_comes_or_goes_changes_the_reason_of_pods_that_are_alike():
    world = World().node("a")
    framework = Framework(default_profile("bursar"), world.context)
    asks = {"resources": f.requesting({"cpu": "1", "example.com/gpu": "1"})}
    plain = {"resources": f.requesting({"cpu": "1", "example.com/nic": "1"})}

    def reason(uid, **fields):
        return framework.choose(Cycle(world.pod(uid, **fields), world.context), 1).refused

    before = reason("p", **asks)
    served(world)
    after, other = reason("q", **asks), reason("r", **plain)

    assert before == {"NodeResourcesFit": {"Insufficient example.com/gpu": 1}}
    assert after == {"NodeResourcesFit": {by_class("example.com/gpu", "gpu.example.com"): 1}}
    assert other == {"NodeResourcesFit": {"Insufficient example.com/nic": 1}}


def test_plugins_of_cards_name_no_remedy_where_claims_give_the_cards():
    world = World().node("a", allocatable=ROOMY | {"nvidia.com/gpu": "0"})
    served(world, "gpu.nvidia.com", "nvidia.com/gpu")
    named = SchedulingProfile(weights={"GpuCards": 1, "DeviceShare": 1})
    [profile] = SchedulingPolicy(profiles=(named,)).made()
    pod = world.pod("p", resources=f.requesting({"cpu": "1", "nvidia.com/gpu": "1"}))
    found = explained(Framework(profile, world.context), pod, 1)

    assert found.refused == {"NodeResourcesFit": {by_class("nvidia.com/gpu", "gpu.nvidia.com"): 1}}
    assert found.changes == [
        "let the pod name kube-scheduler, which allocates devices of DeviceClass gpu.nvidia.com (node a)"
    ]
