"""NodeResourcesFit and NodeResourcesBalancedAllocation: single cases, and random worlds against the oracle."""

import pytest

from reactors.scheduling.contract import Code
from reactors.scheduling.plugins.balanced_allocation import NodeResourcesBalancedAllocation
from reactors.scheduling.plugins.resources_fit import NodeResourcesFit, Point, ScoredResource
from tests.reactors.scheduling import oracle
from tests.reactors.scheduling.worlds import World, asked, random_world, reasons, scores

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
